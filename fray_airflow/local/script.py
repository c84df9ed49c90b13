"""Scripted outcomes and faults: what a test wants to happen, instead of real processes and real trouble."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal

from .names import parse_job_name
from .wire_error import WireError

Kind = Literal["exit", "preempt", "pending", "kill", "lose_worker"]
_ANY = "*"


@dataclass(frozen=True)
class Outcome:
    """What becomes of one attempt of a job's tasks, `seconds` after it began to run.

    With `replica`, only that task meets the outcome; the others would succeed a second later.
    """

    kind: Kind
    seconds: float = 0
    exit_code: int = 0
    lines: tuple[str, ...] = ()
    stderr: tuple[str, ...] = ()
    replica: int | None = None
    by: str = ""
    times: int = 1

    @classmethod
    def succeed(cls, lines: Sequence[str] = (), *, stderr: Sequence[str] = (), seconds: float = 0) -> Outcome:
        """Lines are spread evenly over `seconds`."""
        return cls("exit", seconds, lines=tuple(lines), stderr=tuple(stderr))

    @classmethod
    def fail(
        cls,
        exit_code: int = 1,
        lines: Sequence[str] = (),
        *,
        stderr: Sequence[str] = (),
        seconds: float = 0,
        replica: int | None = None,
    ) -> Outcome:
        return cls("exit", seconds, exit_code, tuple(lines), tuple(stderr), replica)

    @classmethod
    def hang(cls, lines: Sequence[str] = ()) -> Outcome:
        """Run until somebody ends it; the lines appear at once."""
        return cls("exit", math.inf, lines=tuple(lines))

    @classmethod
    def preempt(
        cls, times: int = 1, *, by: str = "/other/urgent/0", seconds: float = 0, lines: Sequence[str] = ()
    ) -> Outcome:
        """`times` attempts are preempted before the next outcome's turn comes. One task of a gang takes all along."""
        return cls("preempt", seconds, lines=tuple(lines), by=by, times=times)

    @classmethod
    def stay_pending(cls, seconds: float = math.inf) -> Outcome:
        """Find no place for `seconds` from when the job was first considered; then the next outcome's turn comes."""
        return cls("pending", seconds)

    @classmethod
    def kill(cls, *, seconds: float = 0, lines: Sequence[str] = ()) -> Outcome:
        """Somebody outside terminates the job."""
        return cls("kill", seconds, lines=tuple(lines))

    @classmethod
    def lose_worker(cls, *, seconds: float = 0, replica: int = 0, lines: Sequence[str] = ()) -> Outcome:
        """The VM under one replica dies; the others go on until that is noticed."""
        return cls("lose_worker", seconds, lines=tuple(lines), replica=replica)


@dataclass
class _Rule:
    pattern: str
    outcomes: deque[Outcome]


@dataclass
class Script:
    """Outcomes by job name. An attempt number of a launch takes one outcome, for all tasks that make that attempt."""

    _rules: list[_Rule] = field(default_factory=list)
    _drawn: dict[tuple[str, int, int], Outcome | None] = field(default_factory=dict)
    _since: dict[tuple[str, int, int], float] = field(default_factory=dict)

    def add(self, pattern: str, outcomes: Sequence[Outcome]) -> None:
        steps = [replace(outcome, times=1) for outcome in outcomes for _ in range(outcome.times)]
        self._rules.append(_Rule(pattern, deque(steps)))

    def outcome(self, job_id: str, submitted_ms: int, attempt_id: int, now: float) -> Outcome | None:
        """None when no rule is left for the job: it then runs as it would without a script."""
        key = (job_id, submitted_ms, attempt_id)
        drawn = self._drawn[key] if key in self._drawn else self._draw(key, now)
        while drawn is not None and drawn.kind == "pending" and now >= self._since[key] + drawn.seconds:
            drawn = self._draw(key, now)
        return drawn

    def unused(self) -> list[str]:
        """What no attempt has met yet, as `pattern: outcome`."""
        return [f"{rule.pattern}: {outcome}" for rule in self._rules for outcome in rule.outcomes]

    def _draw(self, key: tuple[str, int, int], now: float) -> Outcome | None:
        name = parse_job_name(key[0]).last
        rule = next((rule for rule in self._rules if rule.outcomes and fnmatchcase(name, rule.pattern)), None)
        self._drawn[key] = rule.outcomes.popleft() if rule else None
        self._since[key] = now
        return self._drawn[key]


@dataclass
class Faults:
    """Trouble between client and controller, and the count of calls. Thread-safe: servers call it in parallel."""

    calls: Counter[str] = field(default_factory=Counter)
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

    def before(self, method: str) -> None:
        with self._lock:
            self.calls[method] += 1
            for name in (method, _ANY):
                if self._refusals.get(name):
                    raise self._refusals[name].popleft()

    def after(self, method: str) -> None:
        with self._lock:
            if self._lost[method] > 0:
                self._lost[method] -= 1
                raise WireError("unavailable", "injected: the reply was lost")
