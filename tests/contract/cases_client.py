"""What the clients of this package make of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from casebook import case
from iris_under_test import Iris

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.errors import IrisError, JobNotFoundError, SubmissionRejectedError
from fray_airflow.iris import AsyncIrisClient, IrisClient, JobState
from fray_airflow.iris.spoken import known_transport
from fray_airflow.iris.target import parse_target

SMALL = ResourceConfig.with_cpu(cpu=0.1, ram="16m", disk="1m")


def _job(name: str, script: str, **fields: Any) -> JobRequest:
    return JobRequest(name=name, entrypoint=Entrypoint.from_binary("sh", ["-c", script]), resources=SMALL, **fields)


def _log_target(client: IrisClient) -> str | None:
    return str(client.options.log_target) if client.options.log_target else None


@case
def client_handle(iris: Iris) -> None:
    """A submitted job is followed by its handle: state, end, exit code, lines."""
    handle = iris.client.submit(_job(iris.user, "echo line; exit 3", replicas=2, max_task_failures=2))
    assert handle.job_id == f"/airflow/{iris.user}"
    assert handle.wait(timeout=60).state is JobState.FAILED
    assert [task.exit_code for task in handle.tasks()] == [3, 3]
    iris.lines(handle.job_id, 2)
    assert sorted((line.replica, line.attempt, line.text) for line in handle.logs()) == [(0, 0, "line"), (1, 0, "line")]
    handle.terminate()
    assert handle.state() is JobState.FAILED


@case
def client_awaitable(iris: Iris) -> None:
    """The asynchronous client does the same."""

    async def run() -> None:
        options = iris.client.options
        async with AsyncIrisClient(options.target, log_target=_log_target(iris.client)) as client:
            handle = await client.submit(_job(iris.user, "echo line; sleep 300"))
            iris.lines(handle.job_id, 1)
            page = await client.logs(handle.job_id)
            assert [line.text for line in page.lines] == ["line"]
            assert await client.job_states([handle.job_id, "/nobody/none"]) == {handle.job_id: JobState.RUNNING}
            (task,) = await handle.tasks()
            assert task.worker_id in {worker.worker_id for worker in await client.workers()}
            assert [job.job_id for job in await client.jobs(iris.user, "running")] == [handle.job_id]
            await handle.terminate()
            assert (await handle.wait(timeout=60)).state is JobState.KILLED
            with pytest.raises(JobNotFoundError):
                await client.job_status("/nobody/none")

    asyncio.run(run())


@case
def client_errors(iris: Iris) -> None:
    """A request that cannot be placed is a rejected submission; the message has the controller's reason."""
    job = JobRequest(
        name=iris.user, entrypoint=Entrypoint.from_binary("true"), resources=ResourceConfig.with_tpu("v4-8")
    )
    with pytest.raises(SubmissionRejectedError, match="no scaling group provides device tpu:v4-8") as caught:
        iris.client.submit(job)
    assert caught.value.code == "failed_precondition"


@case
def client_finds_the_transport(iris: Iris) -> None:
    """Without a scheme the client finds out what is spoken; the wrong one is called by its name."""
    target = iris.client.options.target
    with IrisClient(target.authority) as client:
        assert client.whoami().user_id == "anonymous"
    assert known_transport(parse_target(target.authority)) == target.transport
    if target.transport == "connect":
        with IrisClient(target.authority, transport="grpc") as client, pytest.raises(IrisError) as caught:
            client.whoami()
        assert "transport=connect" in str(caught.value)
