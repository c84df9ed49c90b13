"""What a function returns, pushed to the log service by its task."""

from __future__ import annotations

from typing import Any

from casebook import case
from iris_under_test import Iris

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import JobState
from fray_airflow.results import ResultOptions, read_envelope, unpack

SMALL = ResourceConfig.with_cpu(cpu=0.1, ram="64m", disk="1m")


def _submit(iris: Iris, function: Any, *args: Any, replicas: int = 1, **options: Any) -> str:
    entrypoint = Entrypoint.from_callable(function, args, result=ResultOptions(**options))
    return iris.client.submit(
        JobRequest(name=iris.user, entrypoint=entrypoint, resources=SMALL, replicas=replicas)
    ).job_id


def _result(iris: Iris, job_id: str, replica: int = 0) -> Any:
    since_ms = iris.job(job_id).submitted_at.epoch_ms
    (text,) = iris.until(lambda: iris.client.result_entries(job_id, replica, 0, since_ms=since_ms), bool)
    return read_envelope(text)


@case
def result_value(iris: Iris) -> None:
    """What a function returns is there under a key of its task when the job ends, and is no line of the log."""
    job_id = _submit(iris, lambda a: {"a": a, "none": None}, "ü" * 1000, replicas=2, senders="all")
    assert JobState(iris.finished(job_id).state) is JobState.SUCCEEDED
    for replica in (0, 1):
        assert unpack(_result(iris, job_id, replica), ResultOptions()) == {"a": "ü" * 1000, "none": None}
    assert iris.client.logs(job_id).lines == ()
    assert iris.client.result_entries(job_id, 0, 0, since_ms=2**42) == ()


@case
def result_exception(iris: Iris) -> None:
    """What a function raises is there too, and the job fails with exit code 1."""
    job_id = _submit(iris, lambda: {}["weights"])
    assert JobState(iris.finished(job_id).state) is JobState.FAILED
    error = _result(iris, job_id)["error"]
    assert (error["type"], error["message"]) == ("KeyError", "'weights'")
    assert iris.task(job_id).exit_code == 1


@case
def result_pushed_file(iris: Iris) -> None:
    """A command's JSON file comes home as a function's value does, with the script that was shipped with it."""
    script = """
    echo '{"loss": 0.5}' > "$IRIS_WORKDIR/metrics.json"
    python3 "$IRIS_WORKDIR/_fray/push_result.py" "$IRIS_WORKDIR/metrics.json"
    """
    entrypoint = Entrypoint(command=("bash", "-ec", script), result=ResultOptions())
    job_id = iris.client.submit(JobRequest(name=iris.user, entrypoint=entrypoint, resources=SMALL)).job_id
    assert JobState(iris.finished(job_id).state) is JobState.SUCCEEDED
    assert unpack(_result(iris, job_id), ResultOptions()) == {"loss": 0.5}


@case
def result_large(iris: Iris) -> None:
    """A result of a mebibyte comes whole; one byte more fails the task."""
    job_id = _submit(iris, lambda: "x" * (1024 * 1024 - 2))
    assert JobState(iris.finished(job_id).state) is JobState.SUCCEEDED
    assert len(_result(iris, job_id)["value"]) == 1024 * 1024 - 2
    other = iris.another_user("over")
    job_id = _submit(other, lambda: "x" * (1024 * 1024 - 1))
    assert JobState(other.finished(job_id).state) is JobState.FAILED
    assert other.client.result_entries(job_id, 0, 0) == ()
