"""What a trigger knows of one of its jobs, and what of it is to be read again."""

from __future__ import annotations

from dataclasses import replace

from fray_airflow.errors import IrisError
from fray_airflow.logs import LogPage
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus
from fray_airflow.triggers.bulk import Answer

DETAIL_SECONDS = 60.0
"""How old details may be of a job whose state stays the same for long. GetJobState does not tell why a job waits: news
for people, that may come a minute late."""

QUIET_SECONDS = 15.0
"""The longest pause between two reads of the log of a running job that prints nothing."""

_SHORTEST_PAUSE = 1.0


class PolledJob:
    """Of one subscription. `detail` is None until the first one has come. Times are monotonic seconds."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.detail: JobStatus | None = None
        self._answer: Answer = None
        self._heard_at: float | None = None
        self._state_since = self._detail_at = self._pause = self._next_read = 0.0

    @property
    def finished(self) -> bool:
        return self.detail is not None and self.detail.state.finished

    def hear(self, answer: Answer, now: float) -> None:
        """What a batch tells of it."""
        self._answer, self._heard_at = answer, now

    def take(self) -> JobStatus | None:
        """The status as of the last batch, once; None if that takes a call. Raises the error that the batch met."""
        if self._heard_at is None:
            return None
        current = not self.changed and not self.worn
        self._heard_at = None
        if isinstance(self._answer, IrisError):
            # A copy: one object raised by a thousand tasks would collect the tracebacks of all.
            raise self._answer.of(self._answer.message, {**self._answer.facts(), "job_id": self.job_id})
        return self.detail if current else None

    def learn(self, detail: JobStatus, now: float) -> None:
        before = self.detail
        if before is None or (before.state, before.task_state_counts) != (detail.state, detail.task_state_counts):
            self._pause = self._next_read = 0.0
        if before is None or before.state is not detail.state:
            self._state_since = now
        self.detail, self._detail_at = detail, now

    def learn_row(self, row: JobStatus, now: float) -> None:
        """What ListJobs tells: it does not repeat the request."""
        if self.detail is not None and row.state is self.detail.state:
            self.learn(replace(row, request_env=self.detail.request_env, band=self.detail.band), now)

    def put_off(self, now: float) -> None:
        """What is known must do for another while."""
        self._detail_at = now

    @property
    def changed(self) -> bool:
        """Also where the batch said nothing of it: then only a call of its own tells why."""
        return self.detail is None or self._answer != self.detail.state

    @property
    def worn(self) -> bool:
        """Whether the details were too old when the batch told that the state is the same."""
        if self._heard_at is None or self.changed or self.finished:
            return False
        age = self._heard_at - self._detail_at
        return age > 0 and age >= self._keeps_for()

    def may_read_log(self, now: float) -> bool:
        """A job leaves PENDING with its first assigned replica, and never returns to it: before there is no log."""
        waits = self.detail is not None and self.detail.state is JobState.PENDING
        return self.finished or (not waits and now >= self._next_read)

    def learn_log(self, page: LogPage, now: float) -> None:
        """A job that prints is read at each look, one that does not less and less often."""
        self._pause = 0.0 if page.lines else min(QUIET_SECONDS, max(_SHORTEST_PAUSE, 2 * self._pause))
        self._next_read = now + self._pause

    def _keeps_for(self) -> float:
        """How many seconds the details are good for, in a state that stays."""
        if self.detail is None:
            return 0.0
        if self.detail.state is JobState.PENDING:
            # The reason why it waits comes some time after the submission, and changes less and less often.
            return min(DETAIL_SECONDS, 3 * (self._detail_at - self._state_since))
        counts = self.detail.task_state_counts
        all_run = counts.get("running", 0) + counts.get("succeeded", 0) >= max(1, self.detail.task_count)
        # Replicas are placed, lost and started without a change of the job's state.
        return DETAIL_SECONDS if all_run or self.detail.state is not JobState.RUNNING else 0.0
