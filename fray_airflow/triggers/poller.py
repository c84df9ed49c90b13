"""One poller for all triggers of an event loop that watch jobs of one controller: a thousand at the cost of one."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import weakref
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from fray_airflow import clock
from fray_airflow.errors import IrisError, IrisUnavailableError
from fray_airflow.hooks.connection import ConnectionSettings
from fray_airflow.status import Worker
from fray_airflow.triggers.bulk import Answer, ask_states, list_details
from fray_airflow.triggers.polled_job import PolledJob

if TYPE_CHECKING:
    from fray_airflow.iris import AsyncIrisClient

log = logging.getLogger(__name__)

LONGEST_BACKOFF_SECONDS = 15.0
"""Between two calls to a controller that is away."""

CALLS_AT_ONCE = 16
LOGS_AT_ONCE = 8
"""Iris refuses nothing under load but queues it, in 64 threads that serve everybody."""

FEW_DETAILS = 4
"""So many jobs of a batch may ask for details that are only old; more are looked up together by ListJobs."""

REFUSED_SECONDS = 600.0
"""How long an id that made a whole call fail is kept out of them, and asked for alone."""

_WOKEN_AT_ONCE = 20

_pollers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Poller]] = weakref.WeakKeyDictionary()


async def join(settings: ConnectionSettings) -> Poller:
    """The running loop's poller for this connection, made if there is none; every `join` needs its `leave`.

    Raises InvalidSpecError for options that no client can have.
    """
    # In a thread: it takes a fifth of a second the first time, and the loop is all triggers' loop.
    await asyncio.to_thread(import_module, "fray_airflow.iris")
    known = _pollers.setdefault(asyncio.get_running_loop(), [])
    # Compared as a whole: with a token that was replaced, it is another.
    poller = next((each for each in known if each.settings == settings), None)
    if poller is None:
        poller = Poller(settings)
        known.append(poller)
    poller.members += 1
    return poller


class Batch:
    """One question at a time that suits many: `at`, in monotonic seconds."""

    def __init__(self, at: float) -> None:
        self.at = at
        self.members: list[tuple[Sequence[PolledJob], asyncio.Future[None]]] = []
        self.asked = False

    def join(self, jobs: Sequence[PolledJob]) -> asyncio.Future[None]:
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.members.append((jobs, told))
        return told


class Poller:
    """Made by `join`, in a running loop. `client` and `reading_logs` are shared by all members."""

    def __init__(self, settings: ConnectionSettings) -> None:
        from fray_airflow.iris import AsyncIrisClient

        self.settings = settings
        self.client: AsyncIrisClient = AsyncIrisClient(settings.host, **settings.arguments)
        self.members = 0
        self.reading_logs = asyncio.Semaphore(LOGS_AT_ONCE)
        self._calling = asyncio.Semaphore(CALLS_AT_ONCE)
        self._planned: list[Batch] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._not_before = 0.0
        self._outage: tuple[IrisError, float] | None = None
        self._refused: dict[str, float] = {}
        self._reading_workers = asyncio.Lock()
        self._workers: tuple[dict[str, Worker] | IrisError, float] = {}, 0.0

    async def leave(self) -> None:
        """The last one to go ends it."""
        self.members -= 1
        if self.members:
            return
        _pollers[asyncio.get_running_loop()].remove(self)
        for task in self._asking:
            task.cancel()
        try:
            if self._asking:
                await asyncio.wait(self._asking)
        finally:
            await self.client.close()

    async def poll(self, jobs: Sequence[PolledJob], seconds: float) -> None:
        """Returns when `jobs` have heard of their states, within `seconds` and the time of a call.

        The call begins after a third of the time at the earliest, so that those of equal interval come to share it
        whenever they began. A controller that is away is asked less often.
        """
        batch = self._batch_within(seconds)
        told = batch.join(jobs)
        # Each waits by itself, so that nobody depends on another that may be cancelled.
        try:
            await clock.pause(max(0.0, batch.at - clock.monotonic()))
            if not batch.asked:
                self._start(batch)
            await told
        finally:
            told.cancel()

    async def call[T](self, ask: Callable[[AsyncIrisClient], Awaitable[T]]) -> T:
        """A call about one job. In an outage those that wait for their turn fail together."""
        asked = clock.monotonic()
        async with self._calling:
            if self._outage is not None and self._outage[1] >= asked:
                raise _copy(self._outage[0])
            try:
                return await ask(self.client)
            except IrisUnavailableError as error:
                self._outage = error, clock.monotonic()
                raise

    async def workers(self, wanted: set[str]) -> list[Worker]:
        """Those that are known, if `wanted` are among them, else read anew: once for all that ask meanwhile."""
        asked = clock.monotonic()
        async with self._reading_workers:
            known, read_at = self._workers
            there = isinstance(known, dict) and bool(wanted) and wanted <= known.keys()
            if read_at < asked and not there:
                read_at = clock.monotonic()
                try:
                    known = {worker.worker_id: worker for worker in await self.call(lambda client: client.workers())}
                except IrisError as error:
                    known = error
                self._workers = known, read_at
        if isinstance(known, IrisError):
            raise _copy(known)
        return list(known.values())

    def _batch_within(self, seconds: float) -> Batch:
        now = clock.monotonic()
        self._planned = [batch for batch in self._planned if batch.at > now and not batch.asked]
        soonest, latest = max(now + seconds / 3, self._not_before), max(now + seconds, self._not_before)
        fitting = [batch for batch in self._planned if soonest <= batch.at <= latest]
        if fitting:
            return max(fitting, key=lambda batch: batch.at)
        # Two triggerers that started together do not call together for ever.
        batch = Batch(max(self._not_before, now + seconds * random.uniform(0.9, 1)))
        self._planned.append(batch)
        return batch

    def _start(self, batch: Batch) -> None:
        batch.asked = True
        # Without a context of its own it would log into the task whose trigger happened to be the first.
        task = asyncio.get_running_loop().create_task(self._ask(batch), context=contextvars.Context())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self, batch: Batch) -> None:
        error: Exception | None = None
        try:
            await self._learn([job for jobs, told in batch.members if not told.done() for job in jobs])
        except Exception as fault:
            log.exception("The poller of %s failed", self.settings.conn_id)
            error = fault
        for number, (_, told) in enumerate(batch.members, start=1):
            if not told.done():
                told.set_exception(error) if error else told.set_result(None)
            if number % _WOKEN_AT_ONCE == 0:
                # Those go on first: woken all at once, they would keep the loop from everybody else.
                await asyncio.sleep(0)

    async def _learn(self, jobs: Sequence[PolledJob]) -> None:
        now = clock.monotonic()
        self._refused = {job_id: until for job_id, until in self._refused.items() if until > now}
        job_ids = list(dict.fromkeys(job.job_id for job in jobs if job.job_id not in self._refused))
        answers, refused = await ask_states(self.client, job_ids)
        now = clock.monotonic()
        self._refused |= dict.fromkeys(refused, now + REFUSED_SECONDS)
        self._learn_outage(answers, now)
        for job in jobs:
            job.hear(answers.get(job.job_id), now)
        await self._refresh([job for job in jobs if job.worn])

    async def _refresh(self, worn: Sequence[PolledJob]) -> None:
        """Renews old details in a number of calls that does not grow with theirs; the rest has to wait."""
        if len(worn) <= FEW_DETAILS:
            return
        try:
            rows = await list_details(self.client, (job.detail for job in worn if job.detail))
        except IrisError as error:
            log.debug("Details of %d jobs stay old: %s", len(worn), error)
            rows = {}
        now = clock.monotonic()
        for job in worn:
            if job.job_id in rows:
                job.learn_row(rows[job.job_id], now)
        for job in [job for job in worn if job.worn][FEW_DETAILS:]:
            job.put_off(now)

    def _learn_outage(self, answers: dict[str, Answer], now: float) -> None:
        if not answers:
            return
        if not all(isinstance(answer, IrisUnavailableError) for answer in answers.values()):
            self._failures, self._not_before = 0, 0.0
            return
        self._failures += 1
        backoff = min(LONGEST_BACKOFF_SECONDS, 2.0 ** min(self._failures - 1, 10))
        self._not_before = now + backoff * random.uniform(0.5, 1)


def _copy(error: IrisError) -> IrisError:
    """For another job. One object raised by a thousand tasks would collect the tracebacks of all."""
    text = error.message.replace(f" of {error.job_id}", "") if error.job_id else error.message
    return error.of(text, {**error.facts(), "job_id": ""})
