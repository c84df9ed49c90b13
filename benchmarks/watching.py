"""What watching costs a triggerer's process, and how soon it sees an end: one measurement per process.

    python benchmarks/watching.py shared 1000     # IrisJobTrigger as it is
    python benchmarks/watching.py alone 1000      # one client and one poll per trigger, as it was before
    python benchmarks/watching.py latency 100

Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fray_airflow.testing.airflow import airflow_environment, iris_connection

os.environ.update(airflow_environment(Path(tempfile.mkdtemp(prefix="fray-airflow-bench-"))))

from iris_process import IrisProcess

from fray_airflow.errors import IrisError
from fray_airflow.hooks import IrisHook
from fray_airflow.iris import IrisClient
from fray_airflow.lifecycle import Conversation, Finish, Plan, PlannedJob, Seen, Submit, Wait
from fray_airflow.triggers import IrisJobTrigger

INTERVAL = 4.0
INTERVALS = 3
"""How many are measured, after two in which everything has found its pace."""

LATENCY_INTERVAL = 2.0
_NAP_SECONDS = 0.01


class Shared(IrisJobTrigger):
    """Notes when it tells of the end."""

    seen_at: float | None = None

    def _resumed(self, bookmark: Any) -> Coroutine[Any, Any, Conversation]:
        self._writer.tell = self._heard
        return super()._resumed(bookmark)

    def _heard(self, level: int, text: str) -> None:
        if text.startswith("SUCCEEDED"):
            self.seen_at = time.time()


class Alone(Shared):
    """The driver as it was: each trigger has a client, and asks for its job's status and log at each look."""

    async def _watch(self) -> Finish | Submit:
        self._talk = talk = Conversation.resume(self.launch, clock=lambda: datetime.now(UTC), tell=self._heard)
        client = await IrisHook(self.iris_conn_id).get_async_conn()
        try:
            while not isinstance(action := talk.next(), Finish | Submit):
                if isinstance(action, Wait):
                    reply = await asyncio.sleep(action.seconds * random.uniform(0.9, 1.1))
                else:
                    try:
                        reply = await action.on(client)
                    except IrisError as error:
                        reply = error
                talk.hear(action, reply)
        finally:
            await client.close()
        return action


def main(kind: str, count: int) -> int:
    with IrisProcess(count if kind == "latency" else 1) as iris:
        os.environ["AIRFLOW_CONN_IRIS_DEFAULT"] = json.dumps(iris_connection(iris.target))
        if kind == "latency":
            measured = asyncio.run(_latency(iris, count))
        else:
            measured = asyncio.run(_cost(iris, {"shared": Shared, "alone": Alone}[kind], count))
    print(json.dumps({"kind": kind, "jobs": count, **measured}), flush=True)
    return 0


async def _cost(iris: IrisProcess, trigger: type[Shared], count: int) -> dict[str, Any]:
    job_ids = await asyncio.to_thread(iris.wait_for_ever, count)
    started = time.monotonic()
    tasks = [asyncio.create_task(_event(_trigger(trigger, job_id, INTERVAL))) for job_id in job_ids]
    while (await asyncio.to_thread(iris.calls)).get("ListTasks", 0) < count:
        await asyncio.sleep(0.5)
    ready = time.monotonic() - started
    await asyncio.sleep(2 * INTERVAL)
    calls, cpu, began = await asyncio.to_thread(iris.calls), time.process_time(), time.monotonic()
    await asyncio.sleep(INTERVAL * INTERVALS)
    cpu, intervals = time.process_time() - cpu, (time.monotonic() - began) / INTERVAL
    after = await asyncio.to_thread(iris.calls)
    # Not in the same seconds: the naps themselves take time.
    lags = sorted(await _lags(INTERVAL * INTERVALS))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "ready_seconds": ready,
        "calls_per_interval": (sum(after.values()) - sum(calls.values())) / intervals,
        "cpu_ms_per_interval": cpu * 1000 / intervals,
        "lag_p99_ms": lags[int(0.99 * len(lags))] * 1000,
        "lag_max_ms": lags[-1] * 1000,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def _lags(seconds: float) -> list[float]:
    """How late each nap was."""
    lags, end = [], time.monotonic() + seconds
    while (started := time.monotonic()) < end:
        await asyncio.sleep(_NAP_SECONDS)
        lags.append(time.monotonic() - started - _NAP_SECONDS)
    return lags


async def _latency(iris: IrisProcess, count: int) -> dict[str, Any]:
    """From the end, by Iris's clock, until the trigger knows, and until its event: that waits for the last lines."""
    ends = [10 + 10 * number / count for number in range(count)]
    job_ids = await asyncio.to_thread(iris.end_after, ends)
    triggers = [_trigger(Shared, job_id, LATENCY_INTERVAL) for job_id in job_ids]
    fired = await asyncio.gather(*map(_event, triggers))
    with IrisClient(iris.target) as client:
        ended = [client.job_status(job_id).finished_at for job_id in job_ids]
    known = [each.seen_at - end.timestamp() for each, end in zip(triggers, ended, strict=True) if each.seen_at and end]
    events = [at - end.timestamp() for at, end in zip(fired, ended, strict=True) if end]
    return {
        "interval": LATENCY_INTERVAL,
        "known_median": statistics.median(known),
        "known_max": max(known),
        "event_median": statistics.median(events),
    }


async def _event(trigger: IrisJobTrigger) -> float:
    async for _ in trigger.run():
        return time.time()
    raise AssertionError("a trigger without an event")


def _trigger(kind: type[Shared], job_id: str, interval: float) -> Shared:
    """Of a job that was submitted an hour ago, so that each look comes after an interval."""
    plan = Plan(job=PlannedJob(job_id, "token"), poll_interval=interval)
    seen = Seen(job_id=job_id, since=datetime.now(UTC) - timedelta(hours=1))
    talk = Conversation(plan, seen, clock=lambda: datetime.now(UTC), tell=lambda *_: None)
    return kind("iris_default", talk.to_json())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
