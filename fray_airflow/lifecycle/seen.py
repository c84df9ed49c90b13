"""What is known of a launch. `learn` is the only way it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from fray_airflow.errors import IrisError, IrisUnavailableError, JobExistsError, JobNotFoundError
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.lifecycle.actions import (
    Action,
    LookUp,
    ReadLogs,
    ReadStatus,
    ReadTail,
    ReadTasks,
    ReadWorkers,
    Submit,
    Terminate,
    Wait,
)
from fray_airflow.logs import LogCursor, LogLine, LogPage, find_result
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import JobStatus, TaskStatus, Worker

STATUS, TASKS, WORKERS, LOGS = "status", "tasks", "workers", "logs"


class Stop(StrEnum):
    """Why a launch is given up before its job ends."""

    DEADLINE = "deadline"
    PLACEMENT = "placement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Facts, and which of them are due to be read again.

    found: jobs under the planned names; None for a name that is free. A name not in it was not looked up yet.
    job_id: the job that is ours now. since: when we submitted it, or when its submitter did.
    placed_at, running_at: when all replicas were first seen placed, and running or beyond.
    away_since, missing_since: since when no call succeeds; since when the controller does not know the job.
    finished_at: when its end was first seen. quiet: the last read of the log brought nothing.
    """

    found: Mapping[str, JobStatus | None] = field(default_factory=dict)
    refused: JobExistsError | None = None
    failed: IrisError | None = None
    job_id: str = ""
    adopted: bool = False
    since: datetime | None = None
    status: JobStatus | None = None
    tasks: tuple[TaskStatus, ...] = ()
    workers: Mapping[str, Worker] = field(default_factory=dict)
    due: frozenset[str] = frozenset()
    cursor: LogCursor | None = None
    has_result: bool = False
    result: Any = None
    placed_at: datetime | None = None
    running_at: datetime | None = None
    away_since: datetime | None = None
    missing_since: datetime | None = None
    finished_at: datetime | None = None
    quiet: bool = False
    tail: tuple[LogLine, ...] | None = None
    stop: Stop | None = None
    terminated: bool = False

    def learn(self, action: Action, reply: Any, now: datetime) -> Seen:
        """What is known after `action` brought `reply`, which is an IrisError if it failed."""
        if isinstance(reply, IrisError):
            return self._learn_error(action, reply, now)
        seen = replace(self, away_since=None)
        match action:
            case LookUp(job_id):
                return replace(seen, found={**self.found, job_id: reply})
            case Submit():
                return seen._follow(reply, now, adopted=False)
            case ReadStatus():
                return seen._learn_status(reply, now)
            case ReadTasks():
                return seen._learn_tasks(tuple(reply), now)
            case ReadWorkers():
                workers = {worker.worker_id: worker for worker in reply}
                return replace(seen, workers={**self.workers, **workers}, due=self.due - {WORKERS})
            case ReadLogs():
                return seen._learn_logs(reply)
            case ReadTail():
                return replace(seen, tail=tuple(reply.lines))
            case Terminate():
                return replace(seen, terminated=True)
            case Wait():
                # A finished job changes no more; only its last lines are still on their way.
                return replace(self, due=frozenset({LOGS} if self.finished_at else {STATUS, LOGS}))
            case _:
                raise TypeError(f"{action!r} has no reply")

    def adopt(self, status: JobStatus, now: datetime) -> Seen:
        """Makes a job that was found the one to watch."""
        return self._follow(status.job_id, now, adopted=True)._learn_status(status, now)

    def to_json(self) -> dict[str, Any]:
        """What must survive a change of driver, as plain JSON values; the rest is read again."""
        return {
            "job_id": self.job_id,
            "since": _iso(self.since),
            "adopted": self.adopted,
            "state": int(self.status.state) if self.status else 0,
            "pending_reason": self.status.pending_reason if self.status else "",
            "placed_at": _iso(self.placed_at),
            "running_at": _iso(self.running_at),
            "log_cursor": self.cursor and self.cursor.to_json(),
            "has_result": self.has_result,
            "result": self.result,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Seen:
        """Goes on where the writer stopped. Missing keys take their defaults, unknown ones are ignored."""
        job_id = str(value["job_id"])
        cursor = value.get("log_cursor")
        return Seen(
            job_id=job_id,
            since=_moment(value.get("since")),
            adopted=bool(value.get("adopted")),
            # Enough to know what has been told already; the next read replaces it.
            status=JobStatus(job_id, JobState(value.get("state", 0)), pending_reason=value.get("pending_reason", "")),
            due=frozenset({STATUS}),
            cursor=LogCursor.from_json(cursor) if cursor else None,
            placed_at=_moment(value.get("placed_at")),
            running_at=_moment(value.get("running_at")),
            has_result=bool(value.get("has_result")),
            result=value.get("result"),
        )

    def stopped(self, stop: Stop) -> Seen:
        return replace(self, stop=stop)

    def _follow(self, job_id: str, now: datetime, *, adopted: bool) -> Seen:
        return replace(self, job_id=job_id, adopted=adopted, since=now, due=frozenset({STATUS}), cursor=None)

    def _learn_status(self, status: JobStatus, now: datetime) -> Seen:
        before = self.status
        changed = before is None or (before.state, before.task_state_counts) != (status.state, status.task_state_counts)
        finished = status.state.finished
        due = self.due - {STATUS} | {LOGS}
        if changed or finished:
            due |= {TASKS}
        submitted = status.submitted_at
        return replace(
            self,
            status=status,
            due=due,
            missing_since=None,
            since=submitted if self.adopted and submitted else self.since,
            cursor=self.cursor or LogCursor(status.job_id, _milliseconds(submitted)),
            finished_at=self.finished_at or (now if finished else None),
        )

    def _learn_tasks(self, tasks: tuple[TaskStatus, ...], now: datetime) -> Seen:
        placed = bool(tasks) and all(task.placed for task in tasks)
        running = bool(tasks) and all(_has_run(task) for task in tasks)
        new = {task.worker_id for task in tasks if task.worker_id} - self.workers.keys()
        return replace(
            self,
            tasks=tasks,
            due=self.due - {TASKS} | ({WORKERS} if new else set()),
            placed_at=self.placed_at or (now if placed else None),
            running_at=self.running_at or (now if running else None),
        )

    def _learn_logs(self, page: LogPage) -> Seen:
        found, result = find_result(page.lines)
        return replace(
            self,
            cursor=page.cursor,
            due=self.due if page.full else self.due - {LOGS},
            quiet=not page.lines,
            has_result=self.has_result or found,
            result=result if found else self.result,
        )

    def _learn_error(self, action: Action, error: IrisError, now: datetime) -> Seen:
        match action:
            case LookUp(job_id) if isinstance(error, JobNotFoundError):
                return replace(self, found={**self.found, job_id: None}, away_since=None)
            case Submit() if isinstance(error, JobExistsError) and self.refused is None:
                # Perhaps it is ours: the reply to an earlier try of this very call was lost. Look again.
                return replace(self, refused=error, found={})
            case LookUp() | Submit():
                return replace(self, failed=error)
            case ReadLogs():
                # A log service that is away never ends a watch; its lines come with a later read.
                return replace(self, due=self.due - {LOGS}, quiet=True)
            case ReadTail():
                return replace(self, tail=())
            case ReadWorkers():
                return replace(self, due=self.due - {WORKERS})
            case Terminate() if isinstance(error, JobNotFoundError):
                return replace(self, terminated=True)
            case Terminate():
                return replace(self, failed=error)
        if isinstance(error, JobNotFoundError):
            return replace(self, due=frozenset(), missing_since=self.missing_since or now, away_since=None)
        if isinstance(error, IrisUnavailableError) or (error.code == "internal" and self.status is not None):
            return replace(self, due=frozenset(), away_since=self.away_since or now)
        return replace(self, failed=error)


def launch_token(status: JobStatus) -> str:
    """The token that a job was submitted with, "" for jobs that are not from here."""
    return status.request_env.get(LAUNCH_ENV, "")


def _has_run(task: TaskStatus) -> bool:
    return task.state is TaskState.RUNNING or task.started_at is not None or task.state is TaskState.SUCCEEDED


def _milliseconds(moment: datetime | None) -> int:
    return round(moment.timestamp() * 1000) if moment else 0


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
