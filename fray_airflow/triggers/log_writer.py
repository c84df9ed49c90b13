"""Many lines into a triggerer's log, without a stop of the event loop that all of its triggers share."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

BATCH_CHARACTERS = 3_500
"""With what JSON adds: what the supervisor of a triggerer reads of its log (4 KiB) between two rounds of database work.
"""

EVENT_CHARACTERS = 300
"""What Airflow adds to each event: the time, the task instance, where in the code."""

BLOCKED_SECONDS = 0.03
"""A batch that took longer has waited for Airflow; alone it takes about a millisecond."""

SHORTEST_PAUSE_SECONDS = 0.015
"""A little more than a round of the supervisor on a slow machine with SQLite."""
LONGEST_PAUSE_SECONDS = 1.0


def _one_thread() -> ThreadPoolExecutor:
    """Airflow's handler has a lock, so that more threads would only wait for one another."""
    return ThreadPoolExecutor(1, thread_name_prefix="iris-log-writer")


def _renew_thread() -> None:
    """A fork has the executor, but not its thread."""
    global _thread
    _thread = _one_thread()


_thread = _one_thread()
os.register_at_fork(after_in_child=_renew_thread)


class Pace:
    """How long to pause between batches, so that Airflow can follow.

    Once the socket to the supervisor is full, whoever writes next waits until most of it has been read, and
    all other triggers that log wait too. So it is to be full rarely: the pause grows at once, and shrinks slowly.
    """

    def __init__(self) -> None:
        self.pause = SHORTEST_PAUSE_SECONDS

    def learn(self, seconds: float) -> None:
        """`seconds`: what writing the last batch took."""
        if seconds > BLOCKED_SECONDS:
            self.pause = min(LONGEST_PAUSE_SECONDS, 1.5 * self.pause)
        else:
            self.pause = max(SHORTEST_PAUSE_SECONDS, 0.995 * self.pause)


_pace = Pace()
"""All triggers of a process write to the same socket."""


class LogWriter:
    """Takes lines at any time, and writes them when its driver awaits `flush`. `log` is called in a thread."""

    def __init__(self, log: Callable[[int, str], None], pace: Pace = _pace) -> None:
        self._log = log
        self._pace = pace
        self._lines: deque[tuple[int, str]] = deque()

    def tell(self, level: int, text: str) -> None:
        self._lines.append((level, text))

    async def flush(self, *, behind: bool = False) -> None:
        """Writes all that was told, in its order. After a cancellation some of it may be missing.

        behind: there is more at Iris. Lines of one level then share an event, since the supervisor takes so many bytes
        a round, and most bytes of an event are not the line's.
        """
        loop = asyncio.get_running_loop()
        while self._lines:
            context = contextvars.copy_context()
            self._pace.learn(await loop.run_in_executor(_thread, context.run, self._write, self._batch(behind)))
            if self._lines or behind:
                await asyncio.sleep(self._pace.pause)

    def _batch(self, behind: bool) -> list[tuple[int, str]]:
        batch = [self._lines.popleft()]
        size = len(batch[0][1]) + EVENT_CHARACTERS
        while self._lines:
            level, text = self._lines[0]
            joins = behind and batch[-1][0] == level
            size += len(text) + (0 if joins else EVENT_CHARACTERS)
            if size > BATCH_CHARACTERS:
                break
            self._lines.popleft()
            if joins:
                batch[-1] = (level, f"{batch[-1][1]}\n{text}")
            else:
                batch.append((level, text))
        return batch

    def _write(self, batch: list[tuple[int, str]]) -> float:
        started = time.monotonic()
        for level, text in batch:
            self._log(level, text)
        return time.monotonic() - started
