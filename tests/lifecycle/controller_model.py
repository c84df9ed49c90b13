"""A controller as a table, a clock that only moves when somebody waits, and a script of what happens when."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fray_airflow.errors import IrisError, IrisUnavailableError, JobExistsError, JobNotFoundError
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.lifecycle import ROUND_ENV, Action, Submit
from fray_airflow.logs import RESULT_MARK, LogCursor, LogLine, LogPage
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import AttemptStatus, JobStatus, TaskStatus, Worker

START = datetime(2030, 1, 1, tzinfo=UTC)
PAGE_LINES = 3
LINE_DELAY = 1.4
"""Seconds until a line can be read, a little less than the machine allows for."""

Script = Iterable[tuple[float, tuple[Any, ...]]]


class Crash(Exception):
    """The driver is gone. `same` says that the same try starts again, else the next one does."""

    def __init__(self, same: bool) -> None:
        self.same = same


@dataclass
class ModelTask:
    index: int
    state: TaskState = TaskState.PENDING
    worker: str = ""
    attempts: list[AttemptStatus] = field(default_factory=list)
    started_at: datetime | None = None


@dataclass
class ModelJob:
    job_id: str
    token: str
    incarnation: int
    submitted_at: datetime
    tasks: list[ModelTask]
    state: JobState = JobState.PENDING
    finished_at: datetime | None = None
    error: str = ""
    failures: int = 0
    preemptions: int = 0
    odd: bool = False
    lines: list[str] = field(default_factory=list)
    all_placed_at: datetime | None = None
    killed_by_us: bool = False
    round: str = ""

    @property
    def live(self) -> bool:
        return not self.state.finished

    @property
    def shown_state(self) -> JobState:
        return JobState(77) if self.odd and self.live else self.state

    @property
    def result(self) -> dict[str, int]:
        return {"incarnation": self.incarnation}


@dataclass
class StoredLine:
    visible_at: datetime
    written_ms: int
    job_id: str
    line: LogLine
    seq: int = 0


class ModelController:
    """What the machine's actions are performed on. Also a client, as `action.on` wants it."""

    def __init__(
        self,
        script: Script = (),
        *,
        replicas: int = 1,
        final: JobState = JobState.SUCCEEDED,
        cost: float = 0.0,
        failures_allowed: int = 0,
        preemptions_allowed: int = 1,
    ) -> None:
        self.now = START
        self.jobs: dict[str, ModelJob] = {}
        self.history: list[ModelJob] = []
        self.calls: list[Action] = []
        self.terminated: list[ModelJob] = []
        self.replicas = replicas
        self.final = final
        self.cost = cost
        self.failures_allowed = failures_allowed
        self.preemptions_allowed = preemptions_allowed
        self.away_until = self.logs_away_until = START
        self.lose_submit = self.die_after_call = False
        self.internal = 0
        self.last_answer: datetime | None = None
        self.log_failures: list[datetime] = []
        self._script = sorted(script, key=lambda each: each[0])
        self._next = 0
        self.settles_at = START + timedelta(seconds=(self._script[-1][0] if self._script else 0) + 5)
        self._unread: list[StoredLine] = []
        self._stored: list[StoredLine] = []

    # Time

    def advance(self, seconds: float) -> None:
        """Lets the time pass with all that happens in it. Raises Crash where the script says so."""
        target = self.now + timedelta(seconds=seconds)
        while (event := self._due(target)) is not None:
            self._happen(*event)
        self.now = max(self.now, target)

    def _due(self, target: datetime) -> tuple[Any, ...] | None:
        if self._next < len(self._script):
            at = START + timedelta(seconds=self._script[self._next][0])
            if at > target:
                return None
            self.now = max(self.now, at)
            self._next += 1
            return self._script[self._next - 1][1]
        if self.settles_at > target:
            return None
        self.now = max(self.now, self.settles_at)
        self.settles_at += timedelta(seconds=5)
        return ("settle",)

    # What happens

    def _happen(self, what: str, value: Any = 0) -> None:
        getattr(self, f"_happen_{what}")(value)

    def _happen_crash(self, same: bool) -> None:
        raise Crash(same)

    def _happen_die_after_call(self, same: bool) -> None:
        self.die_after_call = True
        self._same = same

    def _happen_away(self, seconds: float) -> None:
        self.away_until = self.now + timedelta(seconds=seconds)

    def _happen_logs_away(self, seconds: float) -> None:
        self.logs_away_until = self.now + timedelta(seconds=seconds)

    def _happen_internal(self, times: int) -> None:
        self.internal = times

    def _happen_lose_submit(self, _: Any) -> None:
        self.lose_submit = True

    def _happen_forget(self, _: Any) -> None:
        """A controller that lost its database: its jobs are gone."""
        self.jobs.clear()

    def _happen_odd(self, _: Any) -> None:
        for job in self.live_jobs():
            job.odd = not job.odd

    def _happen_place(self, index: int) -> None:
        for job, task in self._at(index, TaskState.PENDING):
            task.state, task.worker = TaskState.ASSIGNED, f"worker-{task.index}-{len(task.attempts)}"
            task.attempts.append(AttemptStatus(len(task.attempts), TaskState.ASSIGNED, worker_id=task.worker))
            job.state = JobState.RUNNING
            if all(each.attempts for each in job.tasks):
                job.all_placed_at = job.all_placed_at or self.now

    def _happen_start(self, index: int) -> None:
        for _, task in self._at(index, TaskState.ASSIGNED):
            task.state = TaskState.RUNNING
            task.started_at = task.started_at or self.now
            self._attempt(task, state=TaskState.RUNNING, started_at=self.now)

    def _happen_line(self, index: int) -> None:
        for job, task in self._at(index, TaskState.RUNNING):
            self._write(job, task, f"line {job.incarnation}.{len(job.lines)}")

    def _happen_succeed(self, index: int) -> None:
        for job, task in self._at(index, TaskState.RUNNING):
            if task.index == 0:
                self._write(job, task, RESULT_MARK + json.dumps(job.result))
            self._end_task(task, TaskState.SUCCEEDED)
            if all(each.state is TaskState.SUCCEEDED for each in job.tasks):
                self._end(job, JobState.SUCCEEDED)

    def _happen_fail(self, index: int) -> None:
        for job, task in self._at(index, TaskState.RUNNING):
            job.failures += 1
            self._end_task(task, TaskState.FAILED, exit_code=3, error="Exit code: 3")
            if job.failures > self.failures_allowed:
                self._end(job, JobState.FAILED, "too many failures")
            else:
                task.state, task.worker = TaskState.PENDING, ""

    def _happen_preempt(self, index: int) -> None:
        for job, task in self._at(index, TaskState.ASSIGNED, TaskState.RUNNING):
            job.preemptions += 1
            self._end_task(task, TaskState.PREEMPTED, error="Preempted by /p/int/0")
            if job.preemptions > self.preemptions_allowed:
                self._end(job, JobState.WORKER_FAILED, "Preempted by /p/int/0")
            else:
                task.state, task.worker = TaskState.PENDING, ""

    def _happen_kill(self, _: Any) -> None:
        for job in self.live_jobs():
            self._end(job, JobState.KILLED, "Terminated by user")

    def _happen_give_up(self, _: Any) -> None:
        for job in self.live_jobs():
            if job.state is JobState.PENDING:
                self._end(job, JobState.UNSCHEDULABLE, "Scheduling timeout exceeded (Duration(3.000s))")

    def _happen_settle(self, _: Any) -> None:
        """Nothing fails any more, and each job comes a stage nearer to its end."""
        self.internal, self.lose_submit, self.die_after_call = 0, False, False
        ending = {JobState.SUCCEEDED: "succeed", JobState.FAILED: "fail", JobState.WORKER_FAILED: "preempt"}
        for job in self.live_jobs():
            job.odd = False
        for index in range(self.replicas):
            for stage in (ending.get(self.final, "kill"), "start", "place"):
                self._happen(stage, index)

    # Calls

    def perform(self, action: Action) -> Any:
        """The reply, or the error instead. Raises Crash if the driver does not live to hear it."""
        self.advance(self.cost)
        self.calls.append(action)
        try:
            reply = self._submit(action) if isinstance(action, Submit) else action.on(self)  # type: ignore[union-attr]
        except IrisError as error:
            reply = error
        if self.die_after_call:
            self.die_after_call = False
            raise Crash(self._same)
        return reply

    def job_status(self, job_id: str) -> JobStatus:
        self._answer()
        job = self._job(job_id)
        counts: dict[str, int] = {}
        for task in job.tasks:
            counts[task.state.name.lower()] = counts.get(task.state.name.lower(), 0) + 1
        return JobStatus(
            job_id,
            job.shown_state,
            submitted_at=job.submitted_at,
            finished_at=job.finished_at,
            error=job.error,
            pending_reason="no free slice" if job.state is JobState.PENDING else "",
            task_count=len(job.tasks),
            task_state_counts=counts,
            failure_count=job.failures,
            preemption_count=job.preemptions,
            request_env={LAUNCH_ENV: job.token, ROUND_ENV: job.round} if job.token else {},
        )

    def tasks(self, job_id: str) -> list[TaskStatus]:
        self._answer()
        tasks = self.jobs[job_id].tasks if job_id in self.jobs else []
        return [
            TaskStatus(
                f"{job_id}/{task.index}",
                task.state,
                worker_id=task.worker,
                started_at=task.started_at,
                attempts=tuple(task.attempts),
            )
            for task in tasks
        ]

    def workers(self) -> list[Worker]:
        self._answer()
        names = {task.worker for job in self.jobs.values() for task in job.tasks if task.worker}
        return [Worker(name, attributes={"tpu-name": f"slice-{name[-1]}"}) for name in sorted(names)]

    def bands(self, job_ids: Iterable[str]) -> dict[str, str]:
        self._answer()
        return {job_id: "interactive" for job_id in job_ids if job_id in self.jobs and self.jobs[job_id].live}

    def logs(self, job_id: str, cursor: LogCursor) -> LogPage:
        try:
            self._answer()
            if self.now < self.logs_away_until:
                raise IrisUnavailableError("endpoint registry unavailable", code="unavailable")
        except IrisError:
            self.log_failures.append(self.now)
            raise
        found = [
            each
            for each in self._visible()
            if each.job_id == job_id and each.seq > cursor.seq and each.written_ms > cursor.since_ms - 1
        ][:PAGE_LINES]
        seq = found[-1].seq if found else cursor.seq
        return LogPage(tuple(each.line for each in found), cursor.advanced(seq), full=len(found) == PAGE_LINES)

    def log_tail(self, job_id: str, replica: int, *, since_ms: int, lines: int) -> LogPage:
        self._answer()
        found = [
            each.line
            for each in self._visible()
            if each.job_id == job_id and each.line.replica == replica and each.written_ms > since_ms - 1
        ]
        return LogPage(tuple(found[-lines:]), LogCursor(job_id))

    def terminate(self, job_id: str) -> None:
        self._answer()
        job = self._job(job_id)
        self.terminated.append(job)
        if job.live:
            job.killed_by_us = True
            self._end(job, JobState.KILLED, "Terminated by user")

    def _submit(self, action: Submit) -> str:
        self._answer()
        job_id, token = action.job.job_id, action.job.token
        if job_id in self.jobs:
            if not action.replace:
                state = self.jobs[job_id].state.name
                raise JobExistsError(f"Job {job_id} already exists (state=JOB_STATE_{state})", code="already_exists")
            if self.jobs[job_id].live:
                self._end(self.jobs[job_id], JobState.KILLED, "replaced")
            # The old one is drained first.
            self.now += timedelta(seconds=3)
        self.add(job_id, token).round = action.round.to_text()
        if self.lose_submit:
            self.lose_submit = False
            raise IrisUnavailableError("connection reset", code="unavailable")
        return job_id

    def add(self, job_id: str, token: str, state: JobState = JobState.PENDING) -> ModelJob:
        """A job as if somebody had submitted it now."""
        self.now += timedelta(milliseconds=1)
        job = ModelJob(job_id, token, len(self.history), self.now, [ModelTask(n) for n in range(self.replicas)])
        job.state = state
        self.jobs[job_id] = job
        self.history.append(job)
        return job

    def live_jobs(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.live and not job.token.startswith("other")]

    # Inside

    def _answer(self) -> None:
        if self.now < self.away_until:
            raise IrisUnavailableError("connection refused", code="unavailable")
        if self.internal and not isinstance(self.calls[-1], Submit) and self.last_answer is not None:
            self.internal -= 1
            raise IrisError("database is locked", code="internal")
        self.last_answer = self.now

    def _job(self, job_id: str) -> ModelJob:
        if job_id not in self.jobs:
            raise JobNotFoundError(f"Job {job_id} not found", code="not_found")
        return self.jobs[job_id]

    def _at(self, index: int, *states: TaskState) -> list[tuple[ModelJob, ModelTask]]:
        tasks = [(job, job.tasks[index]) for job in self.live_jobs() if index < len(job.tasks)]
        return [(job, task) for job, task in tasks if task.state in states]

    def _attempt(self, task: ModelTask, **changes: Any) -> None:
        old = task.attempts[-1]
        facts = {name: changes.get(name, getattr(old, name)) for name in AttemptStatus.__dataclass_fields__}
        task.attempts[-1] = AttemptStatus(**facts)

    def _end_task(self, task: ModelTask, state: TaskState, **facts: Any) -> None:
        task.state = state
        if task.attempts and not task.attempts[-1].state.finished:
            self._attempt(task, state=state, finished_at=self.now, **facts)

    def _end(self, job: ModelJob, state: JobState, error: str = "") -> None:
        job.state, job.error, job.finished_at = state, error, self.now
        for task in job.tasks:
            if not task.state.finished:
                self._end_task(task, TaskState.KILLED)

    def _write(self, job: ModelJob, task: ModelTask, text: str) -> None:
        line = LogLine(task.index, task.attempts[-1].attempt_id, text, at=self.now)
        job.lines.append(str(line))
        seen_at = self.now + timedelta(seconds=LINE_DELAY)
        self._unread.append(StoredLine(seen_at, round(self.now.timestamp() * 1000), job.job_id, line))

    def _visible(self) -> list[StoredLine]:
        while self._unread and self._unread[0].visible_at <= self.now:
            stored = self._unread.pop(0)
            stored.seq = len(self._stored) + 1
            self._stored.append(stored)
        return self._stored
