"""A submitted job in the hands of its submitter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from fray_airflow.errors import IrisUnavailableError
from fray_airflow.logs import LogCursor, LogLine
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus, TaskStatus

if TYPE_CHECKING:
    from fray_airflow.iris.client import AsyncIrisClient, IrisClient

POLL_SECONDS = 1.0


class JobHandle:
    """Knows its job by the id that the controller returned."""

    def __init__(self, client: IrisClient, job_id: str) -> None:
        self._client = client
        self.job_id = job_id

    def __repr__(self) -> str:
        return f"JobHandle({self.job_id!r})"

    def status(self) -> JobStatus:
        return self._client.job_status(self.job_id)

    def state(self) -> JobState:
        return self.status().state

    def tasks(self) -> list[TaskStatus]:
        return self._client.tasks(self.job_id)

    def terminate(self) -> None:
        """May be called twice, and on a finished job."""
        self._client.terminate(self.job_id)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Polls until the job is finished, and returns its last status, whatever it is.

        Raises IrisUnavailableError if it is not finished within `timeout` seconds; the job goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not (status := self.status()).state.finished:
            if end is not None and time.monotonic() >= end:
                raise _not_finished(status, timeout)
            time.sleep(POLL_SECONDS)
        return status

    def logs(self) -> Iterator[LogLine]:
        """The lines that are there now, of all replicas and attempts."""
        cursor = LogCursor(self.job_id, _submitted_ms(self.status()))
        while True:
            page = self._client.logs(self.job_id, cursor)
            yield from page.lines
            if not page.full:
                return
            cursor = page.cursor


class AsyncJobHandle:
    """The same, awaitable."""

    def __init__(self, client: AsyncIrisClient, job_id: str) -> None:
        self._client = client
        self.job_id = job_id

    def __repr__(self) -> str:
        return f"AsyncJobHandle({self.job_id!r})"

    async def status(self) -> JobStatus:
        return await self._client.job_status(self.job_id)

    async def state(self) -> JobState:
        return (await self.status()).state

    async def tasks(self) -> list[TaskStatus]:
        return await self._client.tasks(self.job_id)

    async def terminate(self) -> None:
        await self._client.terminate(self.job_id)

    async def wait(self, timeout: float | None = None) -> JobStatus:
        end = None if timeout is None else time.monotonic() + timeout
        while not (status := await self.status()).state.finished:
            if end is not None and time.monotonic() >= end:
                raise _not_finished(status, timeout)
            await asyncio.sleep(POLL_SECONDS)
        return status

    async def logs(self) -> AsyncIterator[LogLine]:
        cursor = LogCursor(self.job_id, _submitted_ms(await self.status()))
        while True:
            page = await self._client.logs(self.job_id, cursor)
            for line in page.lines:
                yield line
            if not page.full:
                return
            cursor = page.cursor


def _submitted_ms(status: JobStatus) -> int:
    return round(status.submitted_at.timestamp() * 1000) if status.submitted_at else 0


def _not_finished(status: JobStatus, timeout: float | None) -> IrisUnavailableError:
    return IrisUnavailableError(
        f"{status.job_id} is {status.state} after {timeout:g} s of waiting. It goes on; wait again or terminate it.",
        job_id=status.job_id,
        state=status.state.name,
        pending_reason=status.pending_reason,
    )
