"""The controllers behind Airflow's connections, asked without blocking the API server's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from fray_airflow.hooks import IrisHook
from fray_airflow.hooks.connection import ConnectionSettings
from fray_airflow.plugins.page.recent import Heard, Recent

if TYPE_CHECKING:
    from fray_airflow.iris import AsyncIrisClient
    from fray_airflow.status import JobStatus

_CALL_SECONDS = 3.0
_ACTIVE_SECONDS = 2.0
_ENDED_SECONDS = 60.0
_FLEET_SECONDS = 5.0
_SETTINGS_SECONDS = 10.0
_AT_ONCE = 8
"""A controller answers one call in about 0.05 s and has 64 threads for everybody."""


class Controllers:
    """One client a connection, for one event loop. A connection that was edited is read again within 10 s."""

    def __init__(self) -> None:
        self._recent = Recent()
        self._clients: dict[str, tuple[ConnectionSettings, AsyncIrisClient]] = {}
        # Threads of our own: the forty that Airflow's routes share must not wait for a database or a secrets backend.
        self._threads = anyio.CapacityLimiter(4)
        self._calls = asyncio.Semaphore(_AT_ONCE)

    async def in_thread[T](self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    async def settings(self, conn_id: str) -> Heard:
        """ConnectionSettings."""
        read = partial(self.in_thread, IrisHook(conn_id).settings)
        return await self._recent.ask(("settings", conn_id), read, _SETTINGS_SECONDS)

    async def job(self, conn_id: str, job_id: str) -> Heard:
        """JobStatus."""

        def kept(status: JobStatus) -> float:
            return _ENDED_SECONDS if status.state.finished else _ACTIVE_SECONDS

        return await self._ask("job", conn_id, job_id, lambda client: client.job_status(job_id), kept)

    async def jobs(self, conn_id: str, job_ids: Iterable[str]) -> dict[str, Heard]:
        ids = list(dict.fromkeys(job_ids))
        return dict(zip(ids, await asyncio.gather(*(self.job(conn_id, job_id) for job_id in ids)), strict=True))

    async def tasks(self, conn_id: str, job_id: str) -> Heard:
        """A list of TaskStatus."""
        return await self._ask("tasks", conn_id, job_id, lambda client: client.tasks(job_id), _ACTIVE_SECONDS)

    async def workers(self, conn_id: str) -> Heard:
        """A list of Worker."""
        return await self._ask("workers", conn_id, "", lambda client: client.workers(), _FLEET_SECONDS)

    async def autoscaler(self, conn_id: str) -> Heard:
        """AutoscalerStatus."""
        return await self._ask("autoscaler", conn_id, "", lambda client: client.autoscaler(), _FLEET_SECONDS)

    async def _ask[T](
        self,
        what: str,
        conn_id: str,
        job_id: str,
        call: Callable[[AsyncIrisClient], Awaitable[T]],
        seconds: float | Callable[[T], float],
    ) -> Heard:
        settings = await self.settings(conn_id)
        if settings.problem:
            return Heard(problem=settings.problem)

        async def question() -> Any:
            async with self._calls:
                return await call(await self._client(conn_id, settings.value))

        return await self._recent.ask((what, conn_id, job_id), question, seconds)

    async def _client(self, conn_id: str, settings: ConnectionSettings) -> AsyncIrisClient:
        from fray_airflow.iris import AsyncIrisClient

        known = self._clients.get(conn_id)
        if known is not None and known[0] == settings:
            return known[1]
        # Asks once: the page asks again by itself.
        arguments = {**settings.arguments, "timeout": _CALL_SECONDS, "patience": 0}
        client = AsyncIrisClient(settings.host, **arguments)
        self._clients[conn_id] = (settings, client)
        if known is not None:
            await known[1].close()
        return client
