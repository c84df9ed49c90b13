"""An embedded Iris in the foreground of a process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from .server import LocalIris

_POLL_SECONDS = 0.5


def serve(iris: LocalIris, announce: Callable[[], None], *, going: Callable[[], bool] = lambda: True) -> None:
    """Until SIGTERM or SIGINT, or until `going` says no; `announce` is called once it listens.

    For the main thread, which alone may handle signals. Raises OSError or RuntimeError when a port is taken.
    """
    ended = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        with iris:
            announce()
            while not ended.wait(_POLL_SECONDS) and going():
                pass
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
