"""What stands for the client in a trigger: it answers from what the shared poller knows, as far as it can."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Self

from fray_airflow import clock
from fray_airflow.errors import IrisError
from fray_airflow.hooks import IrisHook
from fray_airflow.logs import LogCursor, LogPage
from fray_airflow.status import JobStatus, TaskStatus, Worker
from fray_airflow.triggers.polled_job import PolledJob
from fray_airflow.triggers.poller import Poller, join

if TYPE_CHECKING:
    from fray_airflow.capacity import Capacity
    from fray_airflow.resources import ResourceConfig

_JITTER = 0.1

_FIRST_PATIENCE_SECONDS = 1.0
"""With a log that is slow to come, before the first wait has told how often the job is looked at."""


class Subscription:
    """The calls of AsyncIrisClient that triggers make, with the same errors, and `wait`. For one trigger.

    Every job whose status was asked for is polled from then on. `open` it first; `close` it when the watching ends.
    """

    def __init__(self, hook: IrisHook, poller: Poller) -> None:
        self._hook = hook
        self._poller = poller
        self._jobs: dict[str, PolledJob] = {}
        self._reading: dict[str, asyncio.Task[LogPage]] = {}
        self._places: dict[str, set[str]] = {}
        self._patience = _FIRST_PATIENCE_SECONDS

    @classmethod
    async def open(cls, iris_conn_id: str) -> Self:
        """Raises as `IrisHook.asettings`."""
        hook = IrisHook(iris_conn_id)
        return cls(hook, await join(await hook.asettings()))

    @property
    def server(self) -> str:
        return self._poller.client.options.target.authority

    async def close(self) -> None:
        try:
            await self._stop_reading()
        finally:
            await self._poller.leave()

    async def renew(self) -> None:
        """Goes on with what the connection says now, such as a new token, and keeps what is known of the jobs."""
        await self._stop_reading()
        before, self._poller = self._poller, await join(await self._hook.asettings())
        await before.leave()

    async def wait(self, seconds: float) -> None:
        """Until the next look: for a third of `seconds` at least, for longer while the controller is away."""
        self._patience = seconds
        if going := [job for job in self._jobs.values() if not job.finished]:
            await self._poller.poll(going, seconds)
        else:
            await clock.pause(seconds * random.uniform(1 - _JITTER, 1 + _JITTER))

    async def job_status(self, job_id: str) -> JobStatus:
        """As of the last look, and read anew if that showed a change, or if there was none since it was asked for."""
        job = self._jobs.setdefault(job_id, PolledJob(job_id))
        if job.detail is not None and job.finished:
            return job.detail
        if (known := job.take()) is not None:
            return known
        detail = await self._poller.call(lambda client: client.job_status(job_id))
        job.learn(detail, clock.monotonic())
        return detail

    async def tasks(self, job_id: str) -> list[TaskStatus]:
        tasks = await self._poller.call(lambda client: client.tasks(job_id))
        self._places[job_id] = {task.worker_id for task in tasks if task.worker_id}
        return tasks

    async def workers(self) -> list[Worker]:
        """Perhaps as another trigger has read them, but with those of this one's replicas, unless they are gone."""
        return await self._poller.workers(set().union(*self._places.values()))

    async def bands(self, job_ids: Collection[str]) -> dict[str, str]:
        return await self._poller.call(lambda client: client.bands(job_ids))

    async def logs(self, job_id: str, cursor: LogCursor) -> LogPage:
        """An empty page without a call while nothing can be there, or nothing was for a while, or the queue is long."""
        job = self._jobs.setdefault(job_id, PolledJob(job_id))
        if not job.may_read_log(clock.monotonic()):
            return LogPage((), cursor)
        began_before = job_id in self._reading
        try:
            page = await self._page(job, cursor)
            if not page.lines and began_before and job.finished:
                # It was asked for before the end, so that it says nothing of the last lines.
                page = await self._page(job, cursor)
        except IrisError:
            job.learn_log(LogPage((), cursor), clock.monotonic())
            raise
        if job_id not in self._reading:
            job.learn_log(page, clock.monotonic())
        return page

    async def log_tail(self, job_id: str, replica: int, **options: Any) -> LogPage:
        return await self._poller.call(lambda client: client.log_tail(job_id, replica, **options))

    async def result_entries(self, job_id: str, replica: int, attempt: int, **options: Any) -> tuple[str, ...]:
        return await self._poller.call(lambda client: client.result_entries(job_id, replica, attempt, **options))

    async def capacity(self, resource_config: ResourceConfig, *, gpu_gang_level: str | None = None) -> Capacity:
        return await self._poller.call(lambda client: client.capacity(resource_config, gpu_gang_level=gpu_gang_level))

    async def terminate(self, job_id: str) -> None:
        """Waits for nobody."""
        await self._poller.client.terminate(job_id)

    async def _page(self, job: PolledJob, cursor: LogCursor) -> LogPage:
        """An empty one if it is still on its way; it keeps its place in the queue, which gives each its share.

        The queue must not keep a job from being looked at. Its last lines are worth waiting for.
        """
        reading = self._reading.get(job.job_id)
        if reading is None:
            reading = self._reading[job.job_id] = asyncio.create_task(self._read_log(job.job_id, cursor))
        done, _ = await asyncio.wait([reading], timeout=None if job.finished else self._patience)
        if not done:
            return LogPage((), cursor)
        del self._reading[job.job_id]
        return reading.result()

    async def _read_log(self, job_id: str, cursor: LogCursor) -> LogPage:
        async with self._poller.reading_logs:
            return await self._poller.client.logs(job_id, cursor)

    async def _stop_reading(self) -> None:
        readings = list(self._reading.values())
        self._reading.clear()
        for reading in readings:
            reading.cancel()
        await asyncio.gather(*readings, return_exceptions=True)
