"""What was last heard, by question: an answer is kept for a moment, and asked for once for all who wait."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException

from fray_airflow.errors import InvalidSpecError, IrisAuthError, IrisError, JobNotFoundError

log = logging.getLogger(__name__)

ANSWER_SECONDS = 4.0
"""People wait for it, and so does a request slot of the API server."""

_KEPT = 2000


@dataclass(frozen=True, slots=True)
class Heard:
    """`value` is the last good answer, None if there never was one; `problem` says why there is no newer one.

    Problems: "no_connection", "bad_connection", "unauthorised", "unknown_job", "unreachable". `at` is epoch seconds.
    """

    value: Any = None
    at: float = 0.0
    problem: str = ""
    code: str = ""


class Recent:
    """Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard: dict[Hashable, tuple[float, Heard]] = {}
        self._asking: dict[Hashable, asyncio.Task[Heard]] = {}

    async def ask[T](
        self, key: Hashable, question: Callable[[], Awaitable[T]], seconds: float | Callable[[T], float]
    ) -> Heard:
        """The kept answer while it is younger than `seconds`, else a new one. Raises nothing that a controller does."""
        until, heard = self._heard.get(key, (0.0, Heard()))
        if self._clock() < until:
            return heard
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._ask(key, question, seconds))
        # Shielded: one page that goes away does not take the answer from the others.
        return await asyncio.shield(self._asking[key])

    async def _ask[T](
        self, key: Hashable, question: Callable[[], Awaitable[T]], seconds: float | Callable[[T], float]
    ) -> Heard:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                value = await question()
            heard = Heard(value, time.time())
            kept = seconds(value) if callable(seconds) else seconds
        except (IrisError, InvalidSpecError, AirflowNotFoundException, TimeoutError) as error:
            log.warning("The Iris page: %s", str(error) or type(error).__name__)
            before = self._heard.get(key, (0.0, Heard()))[1]
            heard = replace(before, problem=_problem(error), code=getattr(error, "code", "") or "")
            # As long as an answer: a controller that is away is not asked by every request.
            kept = ANSWER_SECONDS
        finally:
            self._asking.pop(key, None)
        self._heard.pop(key, None)
        self._heard[key] = (self._clock() + kept, heard)
        while len(self._heard) > _KEPT:
            del self._heard[next(iter(self._heard))]
        return heard


def _problem(error: Exception) -> str:
    kinds: list[tuple[type[Exception], str]] = [
        (AirflowNotFoundException, "no_connection"),
        (InvalidSpecError, "bad_connection"),
        (IrisAuthError, "unauthorised"),
        (JobNotFoundError, "unknown_job"),
    ]
    return next((name for kind, name in kinds if isinstance(error, kind)), "unreachable")
