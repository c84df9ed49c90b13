"""The sync and the async client behind one face, so that a test is written once for both."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from fray_airflow.iris import AsyncIrisClient, IrisClient
from fray_airflow.iris.operations import Operation
from fray_airflow.job import JobRequest

MODES = ("sync", "async")


def once[T](operation: Operation[T]) -> Operation[T]:
    """The same, sent a single time."""
    return dataclasses.replace(operation, patient=False)


def run[T](mode: str, target: str, *operations: Operation[T], **arguments: Any) -> list[T]:
    """Each operation on one client, in order."""
    if mode == "sync":
        with IrisClient(target, **arguments) as client:
            return [client.run(operation) for operation in operations]

    async def run_all() -> list[T]:
        async with AsyncIrisClient(target, **arguments) as client:
            return [await client.run(operation) for operation in operations]

    return asyncio.run(run_all())


def submit(mode: str, target: str, job: JobRequest, **arguments: Any) -> str:
    if mode == "sync":
        with IrisClient(target, **arguments) as client:
            return client.submit(job).job_id

    async def run_it() -> str:
        async with AsyncIrisClient(target, **arguments) as client:
            return (await client.submit(job)).job_id

    return asyncio.run(run_it())
