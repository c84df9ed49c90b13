"""The time of a test: whoever waits lets it pass at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

from fray_airflow import clock

if TYPE_CHECKING:
    import pytest

_STEP_SECONDS = 0.5
_MOST_STEPS = 5
"""A job takes three ticks from the queue to running, and a look at it should find it moved."""
_MOST_WAITS = 2000

_trigger_ends: ContextVar[float] = ContextVar("_trigger_ends", default=math.inf)


class HastyClock:
    """The real time and, on top of it, what was waited. `tick` is called often while time passes.

    A wait that nothing ends would go on for ever, so the test fails after thousands of them.
    """

    def __init__(self) -> None:
        self.ahead = 0.0
        self.tick: Callable[[], None] = lambda: None
        self._waits = 0

    def time(self) -> float:
        return time.time() + self.ahead

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time(), UTC)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def sleep(self, seconds: float) -> None:
        self._count(seconds)
        steps = min(max(math.ceil(seconds / _STEP_SECONDS), 1), _MOST_STEPS)
        for _ in range(steps):
            self.ahead += seconds / steps
            self.tick()

    async def pause(self, seconds: float) -> None:
        """Raises TimeoutError at the end of `trigger_limit`."""
        left = _trigger_ends.get() - self.monotonic()
        self.sleep(max(0.0, min(seconds, left)))
        if left <= seconds:
            raise TimeoutError
        await asyncio.sleep(0)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes it the time of the operators, sensors and triggers of this package, and of sensors that poke."""
        from airflow.sdk.bases import sensor

        from fray_airflow.iris import retry
        from fray_airflow.operators import launch

        for name in ("now", "monotonic", "sleep", "pause"):
            monkeypatch.setattr(clock, name, getattr(self, name))
        monkeypatch.setattr(sensor, "time", SimpleNamespace(monotonic=self.monotonic, sleep=self.sleep))
        # No signal has to be served meanwhile, and a call that is refused is a poll that failed.
        monkeypatch.setattr(launch, "_SLICE_SECONDS", math.inf)
        monkeypatch.setattr(retry, "MAX_ATTEMPTS", 1)

    def _count(self, seconds: float) -> None:
        self._waits += 1
        if self._waits > _MOST_WAITS:
            raise AssertionError(
                f"The task still waits after {_MOST_WAITS} looks at Iris, {self.ahead / 60:.0f} minutes of the test's "
                "time. Nothing in the script ends its job, and no time limit of the task has come. Outcome.hang() and "
                "Outcome.stay_pending() need one: placement_timeout, job_timeout, execution_timeout, or timeout of a "
                f"sensor. For a limit of days, raise poll_interval or poke_interval: the last wait was {seconds:.1f} s."
            )


@contextmanager
def trigger_limit(seconds: float | None) -> Iterator[None]:
    """Triggers that are run inside it have so much of the clock's time; None is no limit."""
    token = _trigger_ends.set(math.inf if seconds is None else clock.monotonic() + seconds)
    try:
        yield
    finally:
        _trigger_ends.reset(token)
