"""The talk between the machine and a driver: it says what to do, hears the reply, and tells what changed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from fray_airflow.lifecycle.actions import Action, Finish, ReadLogs
from fray_airflow.lifecycle.facts import launch_facts
from fray_airflow.lifecycle.learn import learn
from fray_airflow.lifecycle.log_rate import LogRate
from fray_airflow.lifecycle.log_view import LogView
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.seen import Seen, Stop
from fray_airflow.lifecycle.slices import Calls, calls_of, jobs_of
from fray_airflow.lifecycle.step import step
from fray_airflow.lifecycle.story import story
from fray_airflow.lifecycle.tally import Tally
from fray_airflow.logs import LogPage

VERSION = 1

Tell = Callable[[int, str], None]
"""Takes a logging level and a line."""


class Conversation:
    """One launch in progress. A driver repeats `action = talk.next()`, carries it out, `talk.hear(action, reply)`.

    Where a launch has a job per slice, the driver sees the calls for each of them, and the machine their sum.
    `clock` gives the time; `tell` takes each line of the launch's story, and of its job's log.
    """

    def __init__(
        self,
        plan: Plan,
        seen: Seen,
        *,
        clock: Callable[[], datetime],
        tell: Tell,
        counts: Mapping[str, int] | None = None,
        tally: Tally = Tally(),  # noqa: B008  # frozen
    ) -> None:
        self.plan = plan
        self.seen = seen
        self.tally = tally
        self._clock = clock
        self._tell = tell
        self._stop: Stop | None = None
        self._terminated = False
        self._calls: Calls | None = None
        self._whole: Action | None = None
        self._call: Action | None = None
        self._view = LogView(plan.logs, counts)
        self._rate = LogRate(counts)

    def next(self) -> Action:
        if self._call is None:
            before = self._after_interruption(self.seen)
            self.seen, self._whole = step(self.plan, before, self._clock())
            self._told(before)
            self._calls = calls_of(self.plan, self.seen, self._whole)
            self._call = next(self._calls)
        if isinstance(self._call, Finish) and (summary := self._view.summary()):
            self._tell(logging.WARNING, summary)
        return self._call

    def hear(self, action: Action, reply: Any) -> None:
        """`reply` is what the action brought, an IrisError if it failed, None where there is nothing to say."""
        if action is self._call and self._calls is not None and self._whole is not None:
            try:
                self._call = self._calls.send(reply)
            except StopIteration as end:
                action, reply, self._call = self._whole, end.value, None
            else:
                return
        self._learn(action, reply)

    def _learn(self, action: Action, reply: Any) -> None:
        before = self.seen
        self.seen = learn(before, action, reply, self._clock())
        self._told(before)
        if isinstance(action, ReadLogs) and isinstance(reply, LogPage):
            for level, text in self._view.tell(reply):
                self._tell(level, text)
            if hint := self._rate.hint(reply):
                self._tell(logging.WARNING, hint)
        elif isinstance(action, ReadLogs) and self.seen.deaf and not before.deaf:
            self._tell(logging.WARNING, f"The job's log cannot be read now: {reply}")

    def interrupt(self, stop: Stop) -> None:
        """Asks for the end of the job. For signal handlers: it takes effect at the next `next`, never in between."""
        self._stop = stop

    @property
    def is_interrupted(self) -> bool:
        return self._stop is not None

    def live_jobs(self) -> list[str]:
        """What there is to terminate at once, also while its submission is under way; empty after its end."""
        status = self.seen.status
        ended = self.seen.finished_at is not None and not (status and status.survivors)
        return [] if ended else jobs_of(self.plan, self.seen)

    def terminated(self) -> None:
        """The interrupter has told the job to end; need not be done again."""
        self._terminated = True

    def to_json(self) -> dict[str, Any]:
        """Everything that another driver needs to go on, as one plain JSON value."""
        plan, seen, tally = self.plan.to_json(), self.seen.to_json(), self.tally.to_json()
        return {"v": VERSION, "plan": plan, "seen": seen, "lines": self._line_counts(), "tally": tally}

    def facts(self) -> dict[str, Any]:
        """What is known of the launch now; see `launch_facts`."""
        return launch_facts(self.plan, self.seen, self.tally)

    @staticmethod
    def resume(value: Mapping[str, Any], *, clock: Callable[[], datetime], tell: Tell) -> Conversation:
        return Conversation(
            Plan.from_json(value["plan"]),
            Seen.from_json(value["seen"]),
            clock=clock,
            tell=tell,
            counts=value.get("lines"),
            tally=Tally.from_json(value.get("tally") or {}),
        )

    def reading(self) -> dict[str, Any]:
        """How far the job's log has been told: the part of `to_json` that moves with every line."""
        cursor = self.seen.cursor
        return {"log_cursor": cursor.to_json() if cursor else None, "lines": self._line_counts()}

    def _line_counts(self) -> dict[str, int]:
        return {**self._view.counts(), **self._rate.counts()}

    def _after_interruption(self, seen: Seen) -> Seen:
        if self._stop is None or seen.finished_at is not None:
            return seen
        # After a stop of our own it holds for the next launch, which is then not submitted.
        stopped = seen if seen.stop is not None else seen.stopped(self._stop)
        return replace(stopped, terminated=True) if self._terminated and seen.job_id else stopped

    def _told(self, before: Seen) -> None:
        self.tally = self.tally.after(before, self.seen)
        for level, text in story(before, self.seen):
            self._tell(level, text)
