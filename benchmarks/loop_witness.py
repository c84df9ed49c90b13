"""A task whose trigger shares the event loop of all others in a triggerer, and notes how late that loop runs."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

_NAP_SECONDS = 0.01
_SAMPLE_SECONDS = 1.0


class LoopWitness(BaseTrigger):
    """Writes a line of JSON to `notes` each second, until the file `stop` is there.

    at: time of the sample. lag: the longest that a nap of 10 ms was late since the last sample, in seconds.
    runner, supervisor: resident bytes of the process with the loop, and of the one that writes its triggers' logs.
    """

    def __init__(self, notes: str, stop: str) -> None:
        super().__init__()
        self.notes, self.stop = notes, stop

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "loop_witness.LoopWitness", {"notes": self.notes, "stop": self.stop}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        processes = {"runner": psutil.Process(), "supervisor": psutil.Process(os.getppid())}
        lag, due = 0.0, time.monotonic()
        while not Path(self.stop).exists():  # noqa: ASYNC240  # microseconds, and a thread would be noticed more
            started = time.monotonic()
            await asyncio.sleep(_NAP_SECONDS)
            lag = max(lag, time.monotonic() - started - _NAP_SECONDS)
            if time.monotonic() >= due:
                sizes = {name: process.memory_info().rss for name, process in processes.items()}
                _note(Path(self.notes), {"at": time.time(), "lag": lag, **sizes})
                lag, due = 0.0, time.monotonic() + _SAMPLE_SECONDS
        yield TriggerEvent("stopped")


def _note(path: Path, sample: dict[str, float]) -> None:
    with path.open("a") as notes:
        notes.write(json.dumps(sample) + "\n")


class WitnessOperator(BaseOperator):
    def __init__(self, *, notes: str, stop: str, **options: Any) -> None:
        super().__init__(**options)
        self.notes, self.stop = notes, stop

    def execute(self, context: Any) -> None:
        self.defer(trigger=LoopWitness(self.notes, self.stop), method_name="execute_complete")

    def execute_complete(self, context: Any, event: Any) -> None:
        pass
