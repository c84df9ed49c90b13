"""Scripted outcomes: what a test wants to become of jobs, instead of real processes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from .names import parse_job_name

Kind = Literal["exit", "preempt", "pending", "kill", "lose_worker"]
_PREEMPTOR = "/other/urgent/0"
_CALLS = {"preempt": "preempt", "pending": "stay_pending", "kill": "kill", "lose_worker": "lose_worker"}


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
    result: Any = field(default=None, hash=False)
    reason: str = ""

    def __str__(self) -> str:
        """As a test would write it, without what is left at its default."""
        if self.kind == "exit":
            call = "hang" if self.seconds == math.inf else "fail" if self.exit_code else "succeed"
        else:
            call = _CALLS[self.kind]
        given = [
            f"{each.name}={list(value) if isinstance(value, tuple) else value!r}"
            for each in fields(self)
            if each.name != "kind" and (value := getattr(self, each.name)) != each.default and value != math.inf
            if each.default is not MISSING and (call, each.name, value) != ("preempt", "by", _PREEMPTOR)
        ]
        return f"Outcome.{call}({', '.join(given)})"

    @classmethod
    def succeed(
        cls, lines: Sequence[str] = (), *, result: Any = None, stderr: Sequence[str] = (), seconds: float = 0
    ) -> Outcome:
        """Lines are spread evenly over `seconds`. `result` is any JSON value: what a function returns, a command pushes
        or prints as its last marked line. It is not written to a `result_uri`.
        """
        return cls("exit", seconds, lines=tuple(lines), stderr=tuple(stderr), result=result)

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
    def preempt(cls, times: int = 1, *, by: str = _PREEMPTOR, seconds: float = 0, lines: Sequence[str] = ()) -> Outcome:
        """`times` attempts are preempted before the next outcome's turn comes. One task of a gang takes all along."""
        return cls("preempt", seconds, lines=tuple(lines), by=by, times=times)

    @classmethod
    def stay_pending(cls, seconds: float = math.inf, *, reason: str = "") -> Outcome:
        """Find no place for `seconds` from when the job was first considered; then the next outcome's turn comes.

        `reason` is what the tasks say meanwhile, instead of the scheduler's own words.
        """
        return cls("pending", seconds, reason=reason)

    @classmethod
    def kill(cls, *, seconds: float = 0, lines: Sequence[str] = ()) -> Outcome:
        """Somebody outside terminates the job."""
        return cls("kill", seconds, lines=tuple(lines))

    @classmethod
    def lose_worker(cls, *, seconds: float = 0, replica: int = 0, lines: Sequence[str] = ()) -> Outcome:
        """The VM under one replica dies; the others go on until that is noticed."""
        return cls("lose_worker", seconds, lines=tuple(lines), replica=replica)


@dataclass
class Rule:
    """Outcomes for some jobs. `left` are those that no attempt has met yet."""

    pattern: str
    left: deque[Outcome]

    def covers(self, name: str, task_id: str) -> bool:
        """Whether it speaks of a job with this last name component, which the Airflow task `task_id` submits."""
        return fnmatchcase(name, self.pattern) or bool(task_id and fnmatchcase(task_id, self.pattern))


@dataclass
class Script:
    """Outcomes by job name. An attempt number of a launch takes one outcome, for all tasks that make that attempt."""

    rules: list[Rule] = field(default_factory=list)
    allows_others: bool = False
    strangers: list[str] = field(default_factory=list)
    """Ids of jobs that were submitted when no rule was left for them."""
    _drawn: dict[tuple[str, int, int], Outcome | None] = field(default_factory=dict)
    _since: dict[tuple[str, int, int], float] = field(default_factory=dict)
    _tasks: dict[tuple[str, int], str] = field(default_factory=dict)

    def add(self, pattern: str, outcomes: Sequence[Outcome]) -> None:
        steps = [replace(outcome, times=1) for outcome in outcomes for _ in range(outcome.times)]
        self.rules.append(Rule(pattern, deque(steps)))

    def submitted(self, job_id: str, submitted_ms: int, task_id: str, now: float) -> None:
        """A job was accepted. Its first attempt draws its outcome now, even if it never comes to be placed."""
        self._tasks[job_id, submitted_ms] = task_id
        if self._rule(job_id, submitted_ms) is not None:
            self._draw((job_id, submitted_ms, 0), now)
        else:
            self.strangers.append(job_id)

    def outcome(self, job_id: str, submitted_ms: int, attempt_id: int, now: float) -> Outcome | None:
        """None when no rule is left for the job: it then runs as it would without a script."""
        key = (job_id, submitted_ms, attempt_id)
        drawn = self._drawn[key] if key in self._drawn else self._draw(key, now)
        while drawn is not None and drawn.kind == "pending" and now >= self._since[key] + drawn.seconds:
            drawn = self._draw(key, now)
        return drawn

    def unused(self) -> list[str]:
        """What no attempt has met yet, as `pattern: outcome`."""
        return [f"{rule.pattern}: {outcome}" for rule in self.rules for outcome in rule.left]

    def _draw(self, key: tuple[str, int, int], now: float) -> Outcome | None:
        rule = self._rule(key[0], key[1])
        self._drawn[key] = rule.left.popleft() if rule else None
        self._since[key] = now
        return self._drawn[key]

    def _rule(self, job_id: str, submitted_ms: int) -> Rule | None:
        name, task_id = parse_job_name(job_id).last, self._tasks.get((job_id, submitted_ms), "")
        return next((rule for rule in self.rules if rule.left and rule.covers(name, task_id)), None)
