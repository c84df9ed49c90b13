"""Jobs on a local Iris and triggers that watch them, without operators in front."""

import asyncio
import contextlib
import logging
import threading
import time
from datetime import UTC, datetime, timedelta

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import IrisClient
from fray_airflow.iris.submission import prepare
from fray_airflow.lifecycle import Conversation, Plan, PlannedJob, Seen
from fray_airflow.triggers import IrisJobTrigger
from fray_airflow.triggers.log_writer import LogWriter

LONGEST_WAIT = 60


def launch(iris, count, name="wait"):
    """Job ids of that many jobs of one replica, as scripted for `name*`."""
    job = JobRequest(
        name=name,
        entrypoint=Entrypoint.from_binary("true", []),
        resources=ResourceConfig.with_cpu(cpu=1, ram="1g", disk="1g"),
    )
    with IrisClient(iris.target) as client:
        request = prepare(job, user="airflow", base=None, gpu_gang_level=None)
        ids = []
        for number in range(count):
            request.name = f"/airflow/{name}-{number}"
            ids.append(client.launch(request))
    return ids


def trigger_of(job_id, *, conn_id="iris_default", age=timedelta(hours=1), **plan):
    """As a worker hands it over whose job was submitted `age` ago: old jobs are looked at each poll_interval."""
    plan = Plan(job=PlannedJob(job_id, "token"), **plan)
    seen = Seen(job_id=job_id, since=datetime.now(UTC) - age)
    talk = Conversation(plan, seen, clock=lambda: datetime.now(UTC), tell=lambda *_: None)
    return ToldTrigger(conn_id, talk.to_json())


class ToldTrigger(IrisJobTrigger):
    """Collects what it logs."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.told = []
        self._writer = LogWriter(lambda level, text: self.told.append((level, text)))

    @property
    def warnings(self):
        return [text for level, text in self.told if level >= logging.WARNING]

    @property
    def lines(self):
        return [line for _, text in self.told for line in text.split("\n") if line.startswith("[replica")]


async def event_of(trigger):
    async for event in trigger.run():
        return event.payload
    raise AssertionError("no event")


@contextlib.asynccontextmanager
async def watching(triggers):
    """Their tasks, which are cancelled at the end."""
    tasks = [asyncio.create_task(event_of(trigger)) for trigger in triggers]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition):
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert condition()


class FarSide:
    """What a controller can do beside answering. Put in front of `iris.cluster.handle` by `meddle`.

    delay: seconds by method, before a call is answered; lag: between the answer and its arrival. poison: what makes a
    GetJobState with it among its ids fail with `code`. most: calls at a time, by method.
    """

    def __init__(self):
        self.delay = {}
        self.lag = {}
        self.poison = None
        self.code = "internal"
        self.most = {}
        self._now = {}
        self._lock = threading.Lock()


def meddle(monkeypatch, iris):
    from fray_airflow.local.wire_error import WireError

    side, handle = FarSide(), iris.cluster.handle

    def meddled(path, request, metadata=None):
        method = path.rpartition("/")[2]
        with side._lock:
            side._now[method] = side._now.get(method, 0) + 1
            side.most[method] = max(side.most.get(method, 0), side._now[method])
        try:
            time.sleep(side.delay.get(method, side.delay.get("*", 0)))
            if method == "GetJobState" and side.poison is not None and side.poison.encode() in request:
                iris.cluster.faults.calls[method] += 1
                raise WireError(side.code, "RPC GetJobState: no such column")
            answer = handle(path, request, metadata)
            time.sleep(side.lag.get(method, 0))
            return answer
        finally:
            with side._lock:
                side._now[method] -= 1

    monkeypatch.setattr(iris.cluster, "handle", meddled)
    return side
