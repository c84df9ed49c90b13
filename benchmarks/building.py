"""What specs, requests and submissions cost.

    python benchmarks/building.py

Prints one line of JSON. The translation is compared with marin-fray's where that is installed.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fray_airflow.testing.airflow import airflow_environment, iris_connection

os.environ.update(airflow_environment(Path(tempfile.mkdtemp(prefix="fray-airflow-bench-"))))

from airflow.sdk import DAG, BaseOperator
from iris_process import IrisProcess, plain_job

from fray_airflow import Entrypoint, JobRequest, ResourceConfig, create_environment
from fray_airflow.iris import IrisClient
from fray_airflow.iris.submission import prepare
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing import run_operator

OPERATORS = 1000
TRANSLATIONS = 300
SUBMISSIONS = 200
_ROUNDS = 5


def main() -> int:
    logging.disable(logging.WARNING)
    measured = {"operators": _operators(), "translation": _translation(), "submission": _submission()}
    print(json.dumps(measured))
    return 0


def _operators() -> dict[str, float]:
    def build() -> None:
        with DAG("built", schedule=None):
            for number in range(OPERATORS):
                IrisSubmitJobOperator(
                    task_id=f"train_{number}",
                    command=["python", "train.py", "--seed", "{{ params.seed }}"],
                    resource_config=ResourceConfig.with_tpu("v5p-16", slice_count=2),
                    environment=create_environment(env_vars={"WANDB_MODE": "offline"}),
                )

    def build_plain() -> None:
        with DAG("plain", schedule=None):
            for number in range(OPERATORS):
                BaseOperator(task_id=f"train_{number}")

    build()
    seconds, plain = (statistics.median(_timed(each) for _ in range(_ROUNDS)) for each in (build, build_plain))
    return {"count": OPERATORS, "seconds": seconds, "plain_seconds": plain}


def _translation() -> dict[str, Any]:
    """The same job request to the message that is sent: ours, and marin-fray's with marin-iris's client."""
    config = ResourceConfig.with_tpu("v5p-16", regions=["us-east5"])
    env = {"A": "1", "B": "2"}
    job = JobRequest(
        name="train",
        entrypoint=Entrypoint.from_binary("python", ["train.py"]),
        resources=config,
        environment=create_environment(env_vars=env),
        replicas=2,
    )
    ours = _each(lambda: prepare(job, user="airflow"))
    try:
        theirs = _each(_frays(env))
    except ImportError:
        return {"count": TRANSLATIONS, "ours_ms": ours * 1000}
    return {"count": TRANSLATIONS, "ours_ms": ours * 1000, "theirs_ms": theirs * 1000, "ratio": ours / theirs}


def _frays(env: dict[str, str]) -> Callable[[], None]:
    fray = importlib.import_module("fray.types")
    client = importlib.import_module("fray.iris_backend").FrayIrisClient("http://127.0.0.1:9")
    job = fray.JobRequest(
        name="train",
        entrypoint=fray.Entrypoint.from_binary("python", ["train.py"]),
        resources=fray.ResourceConfig.with_tpu("v5p-16", regions=["us-east5"]),
        environment=fray.create_environment(env_vars=env),
        replicas=2,
    )

    class Ready(Exception):
        """The request is complete: nothing is sent."""

    def launch_job(*_: Any, **__: Any) -> None:
        raise Ready

    client._iris._cluster_client._client.launch_job = launch_job

    def submit() -> None:
        try:
            client.submit(job)
        except Ready:
            return
        raise AssertionError("marin-iris has sent something else first")

    return submit


def _submission() -> dict[str, float]:
    """An operator that submits and does not wait, beside the bare call."""
    with IrisProcess(100) as iris:
        os.environ["AIRFLOW_CONN_IRIS_DEFAULT"] = json.dumps(iris_connection(iris.target))
        with IrisClient(iris.target) as client:
            bare = [prepare(plain_job(f"bare-{number}"), user="airflow") for number in range(SUBMISSIONS)]
            client.launch(prepare(plain_job("first"), user="airflow"))
            rpc = _timed(lambda: [client.launch(request) for request in bare], time.perf_counter) / SUBMISSIONS
        with DAG("submitted", schedule=None):
            operators = [
                IrisSubmitJobOperator(task_id=f"task_{number}", command=["true"], wait_for_completion=False)
                for number in range(SUBMISSIONS)
            ]
            first = IrisSubmitJobOperator(task_id="first", command=["true"], wait_for_completion=False)
        run_operator(first)
        calls = sum(iris.calls().values())
        path = _timed(lambda: [run_operator(operator) for operator in operators], time.perf_counter) / SUBMISSIONS
        calls = sum(iris.calls().values()) - calls
    return {
        "count": SUBMISSIONS,
        "rpc_ms": rpc * 1000,
        "operator_ms": path * 1000,
        "ratio": path / rpc,
        "calls": calls / SUBMISSIONS,
    }


def _each(build: Callable[[], object]) -> float:
    build()
    return statistics.median(_timed(lambda: [build() for _ in range(TRANSLATIONS)]) for _ in range(3)) / TRANSLATIONS


def _timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of this process's own work, unless another clock is given: others may want the processor too."""
    started = clock()
    work()
    return clock() - started


if __name__ == "__main__":
    sys.exit(main())
