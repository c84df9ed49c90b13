"""Scripted trouble between client and controller: refused calls, lost replies, outages."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .wire_error import WireError

SHUTTING_DOWN = "Controller is shutting down"
_ANY = "*"


@dataclass
class _Outage:
    begins: float
    ends: float
    noticed: bool = False


@dataclass
class Faults:
    """Trouble between client and controller, and the count of calls. Thread-safe: servers call it in parallel."""

    clock: Callable[[], float] = time.time
    calls: Counter[str] = field(default_factory=Counter)
    _outages: list[_Outage] = field(default_factory=list)
    _refusals: dict[str, deque[WireError]] = field(default_factory=dict)
    _lost: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, method: str, code: str, times: int, message: str = "") -> None:
        """The next `times` calls of `method` ("*": of any) are refused before they do anything."""
        error = WireError(code, message or f"injected {code}")
        with self._lock:
            self._refusals.setdefault(method, deque()).extend([error] * times)

    def lose_reply(self, method: str, times: int) -> None:
        """The next `times` calls of `method` are done, but the caller never hears of it."""
        with self._lock:
            self._lost[method] += times

    def be_away(self, seconds: float, after: float) -> None:
        """Every call is refused for `seconds`, which begin `after` seconds from now."""
        with self._lock:
            begins = self.clock() + after
            self._outages.append(_Outage(begins, begins + seconds))

    def unused(self) -> list[str]:
        """What was to go wrong and did not, because the calls did not come, as the start of a sentence."""
        with self._lock:
            refused = [
                f"{'away' if name == _ANY else 'fault'}({'...' if name == _ANY else repr(name)}): {_calls(len(left))} "
                "to be refused"
                for name, left in self._refusals.items()
                if left
            ]
            lost = [
                f"lose_reply({name!r}): {_calls(left)} to lose a reply" for name, left in self._lost.items() if left
            ]
            unnoticed = [
                "away(seconds=...): a call was to come meanwhile" for each in self._outages if not each.noticed
            ]
            return refused + lost + unnoticed

    def before(self, method: str) -> None:
        with self._lock:
            self.calls[method] += 1
            self._check_outages()
            for name in (method, _ANY):
                if self._refusals.get(name):
                    raise self._refusals[name].popleft()

    def _check_outages(self) -> None:
        now = self.clock()
        for outage in self._outages:
            if outage.begins <= now < outage.ends:
                outage.noticed = True
                raise WireError("unavailable", SHUTTING_DOWN)

    def after(self, method: str) -> None:
        with self._lock:
            if self._lost[method] > 0:
                self._lost[method] -= 1
                raise WireError("unavailable", "injected: the reply was lost")


def _calls(count: int) -> str:
    return "1 more call was" if count == 1 else f"{count} more calls were"
