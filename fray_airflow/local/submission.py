"""What somebody submitted, as plain values: for tests that assert on what their DAG asks for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris._gen import controller_pb2, job_pb2
from fray_airflow.iris.callables import FOLDER

from .constraints import values_of
from .names import parse_job_name
from .redaction import without_secrets

_SIGNS = {"EQ": "==", "NE": "!=", "GT": ">", "GE": ">=", "LT": "<", "LE": "<=", "IN": "in"}


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One accepted LaunchJob, before Iris adds anything of its own.

    task_id: the Airflow task that submitted, "" where that is not known. name: the last part of `job_id`.
    command: of one replica; for a Python function the call of its runner, and `function` is its name, else "".
    env: the variables. Secrets by name or format, and values that hold one of `secrets`,
        are "[REDACTED]".
    secrets: names only. files: names of what is sent beside a bundle.
    resources: of one replica: cpu (cores), memory_bytes, disk_bytes, device ("cpu", "tpu", "gpu"), variant, count (of
        chips or GPUs). A replica with an accelerator has at least four cores.
    constraints: triples such as ("region", "in", ["us-east5"]) and ("preemptible", "==", "false"), without those that
        follow from the device.
    gang_level: the attribute of the machines that all replicas must share, "" where each stands alone.
    timeout_seconds: of one attempt; None for no limit.
    """

    task_id: str
    job_id: str
    name: str
    command: list[str]
    function: str
    env: dict[str, str]
    secrets: list[str]
    files: list[str]
    resources: dict[str, Any]
    replicas: int
    constraints: list[tuple[str, str, Any]]
    gang_level: str
    image: str
    ports: list[str]
    priority: str
    timeout_seconds: float | None
    max_retries_failure: int
    max_retries_preemption: int
    max_task_failures: int

    def __str__(self) -> str:
        """In a line, for messages."""
        device = f"{self.resources['count']} {self.resources['variant']}" if self.resources["count"] else "CPU"
        who = f"task {self.task_id!r}" if self.task_id else "no known task"
        return f"{self.job_id} by {who}: {self.replicas} x {device}, {self.function or ' '.join(self.command)}"


def submission_of(request: controller_pb2.Controller.LaunchJobRequest, job_id: str, task_id: str) -> Submission:
    """`request` as it came, `job_id` as it was accepted."""
    env = {name: value for name, value in request.environment.env_vars.items() if name != LAUNCH_ENV}
    files = request.entrypoint.workdir_files
    runner = json.loads(files.get(f"{FOLDER}/callable.json", b"{}"))
    return Submission(
        task_id=task_id,
        job_id=job_id,
        name=parse_job_name(job_id).last,
        command=list(request.entrypoint.run_command.argv),
        function=runner.get("function", ""),
        env=without_secrets(env, request.environment.secrets.values()),
        secrets=sorted(request.environment.secrets),
        files=sorted(name for name in files if not name.startswith(f"{FOLDER}/")),
        resources=_resources(request.resources),
        replicas=request.replicas,
        constraints=[_constraint(each) for each in request.constraints],
        gang_level=request.coscheduling.group_by,
        image=request.task_image,
        ports=list(request.ports),
        priority=job_pb2.PriorityBand.Name(request.priority_band).removeprefix("PRIORITY_BAND_").lower(),
        timeout_seconds=request.timeout.milliseconds / 1000 if request.HasField("timeout") else None,
        max_retries_failure=request.max_retries_failure,
        max_retries_preemption=request.max_retries_preemption,
        max_task_failures=request.max_task_failures,
    )


def _resources(spec: job_pb2.ResourceSpecProto) -> dict[str, Any]:
    device = {"device": "cpu", "variant": "", "count": 0}
    if spec.device.HasField("tpu"):
        device = {"device": "tpu", "variant": spec.device.tpu.variant, "count": spec.device.tpu.count}
    elif spec.device.HasField("gpu"):
        device = {"device": "gpu", "variant": spec.device.gpu.variant, "count": spec.device.gpu.count}
    return {
        "cpu": spec.cpu_millicores / 1000,
        "memory_bytes": spec.memory_bytes,
        "disk_bytes": spec.disk_bytes,
        **device,
    }


def _constraint(constraint: job_pb2.Constraint) -> tuple[str, str, Any]:
    name = job_pb2.ConstraintOp.Name(constraint.op).removeprefix("CONSTRAINT_OP_")
    sign = _SIGNS.get(name, name.lower().replace("_", " "))
    if constraint.mode == job_pb2.CONSTRAINT_MODE_PREFERRED:
        sign = f"preferably {sign}"
    if name not in _SIGNS:
        return constraint.key, sign, None
    values = values_of(constraint)
    return constraint.key, sign, values if name == "IN" else values[0]
