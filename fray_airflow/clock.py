"""The time as operators, sensors and triggers see it: in one place, so that a test can let hours pass at once.

Call these as `clock.now()`: a name that was imported from here would keep the real clock in such a test.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


def now() -> datetime:
    """Comparable with Iris's times."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Seconds since some moment: for what is measured here alone."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """On a worker."""
    time.sleep(seconds)


async def pause(seconds: float) -> None:
    """In a triggerer."""
    await asyncio.sleep(seconds)
