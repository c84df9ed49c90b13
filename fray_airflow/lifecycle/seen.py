"""What is known of a launch. `learn` is the only way it changes."""

from __future__ import annotations

from collections import Counter
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
    ReadResult,
    ReadStatus,
    ReadTail,
    ReadTasks,
    ReadWorkers,
    Submit,
    Terminate,
    Wait,
)
from fray_airflow.logs import LogCursor, LogLine, LogPage, find_result
from fray_airflow.results import Envelope, read_envelope
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import JobStatus, TaskStatus, Worker

STATUS, TASKS, WORKERS, LOGS = "status", "tasks", "workers", "logs"

_PASSING = ("internal", "unknown", "resource_exhausted", "data_loss")
"""Answers to reads of a job that has answered before: whatever is wrong there, it is not the question."""

SETBACK = (TaskState.FAILED, TaskState.WORKER_FAILED, TaskState.PREEMPTED)
"""How an attempt ends that people want to know of; replicas taken down with others only follow."""


class Stop(StrEnum):
    """Why a launch is given up before its job ends."""

    DEADLINE = "the task's execution_timeout has passed"
    PLACEMENT = "its placement_timeout has passed"
    KILLED = "the task was marked or cleared in Airflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Facts, and which of them are due to be read again.

    found: jobs under the planned names; None for a name that is free. A name not in it was not looked up yet.
    job_id: the job that is ours now. since: when we submitted it, or when its submitter did.
    placed_at, running_at: when all replicas were first seen placed, and running or beyond.
    stale: the job changed since its replicas were read.
    places, setbacks: where all replicas were last seen; per replica its latest attempt that is known to have failed.
    away_since, missing_since: since when no call succeeds; since when the controller does not know the job.
    back_at: when a call succeeded again after others had not.
    unsure: a submission was not answered.
    pause: the last call was not answered, so wait before the next.
    finished_at: when its end was seen, and again when its replicas were read after it.
    quiet, deaf: the last read of the log brought nothing; it failed.
    results, asked, unread: what functions returned or raised, by replica; who was asked since the last wait, with or
        without success; why the last asking failed.
    stop, terminated: why the job is ended by us; it was told so. farewell: it was tried once, at least.
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
    stale: bool = False
    places: Mapping[str, int] = field(default_factory=dict)
    setbacks: Mapping[int, int] = field(default_factory=dict)
    cursor: LogCursor | None = None
    has_result: bool = False
    result: Any = None
    placed_at: datetime | None = None
    running_at: datetime | None = None
    away_since: datetime | None = None
    missing_since: datetime | None = None
    back_at: datetime | None = None
    unsure: bool = False
    pause: bool = False
    finished_at: datetime | None = None
    quiet: bool = False
    deaf: bool = False
    tail: tuple[LogLine, ...] | None = None
    results: Mapping[int, Envelope] = field(default_factory=dict)
    asked: frozenset[int] = frozenset()
    unread: IrisError | None = None
    stop: Stop | None = None
    terminated: bool = False
    farewell: bool = False

    def learn(self, action: Action, reply: Any, now: datetime) -> Seen:
        """What is known after `action` brought `reply`, which is an IrisError if it failed."""
        if isinstance(reply, IrisError):
            return self._learn_error(action, reply, now)
        seen = replace(self, away_since=None, back_at=now if self.away_since else self.back_at)
        match action:
            case LookUp(job_id):
                return replace(self._reached(), found={**self.found, job_id: reply})
            case Submit():
                return seen._follow(reply, now, adopted=False)
            case ReadStatus():
                return seen._learn_status(reply, now)
            case ReadTasks():
                return seen._learn_tasks(tuple(reply), now)
            case ReadWorkers():
                workers = {**self.workers, **{worker.worker_id: worker for worker in reply}}
                places = _places(self.tasks, workers) or self.places
                return replace(seen, workers=workers, places=places, due=self.due - {WORKERS})
            case ReadLogs():
                return seen._learn_logs(reply)
            case ReadTail():
                return replace(seen, tail=tuple(reply.lines))
            case ReadResult(replica=replica):
                envelopes = [envelope for text in reply if (envelope := read_envelope(text)) is not None]
                results = {**self.results, replica: envelopes[-1]} if envelopes else self.results
                return replace(seen, results=results, asked=self.asked | {replica}, unread=None)
            case Terminate(job_id) if job_id != self.job_id:
                return replace(seen, found={**self.found, job_id: None})
            case Terminate():
                return replace(seen, terminated=True, farewell=True)
            case Wait():
                # A finished job changes no more; only its last lines are still on their way.
                due = ({LOGS} if self.finished_at else {STATUS, LOGS}) | ({TASKS} if self.stale else set())
                return replace(self, due=frozenset(due), pause=False, asked=frozenset())
            case _:
                raise TypeError(f"{action!r} has no reply")

    @property
    def succeeded(self) -> bool:
        return self.status is not None and self.status.state is JobState.SUCCEEDED

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
            "places": dict(self.places),
            "setbacks": {str(replica): attempt for replica, attempt in self.setbacks.items()},
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
            stale=True,
            places=dict(value.get("places") or {}),
            setbacks={int(replica): int(attempt) for replica, attempt in (value.get("setbacks") or {}).items()},
            cursor=LogCursor.from_json(cursor) if cursor else None,
            placed_at=_moment(value.get("placed_at")),
            running_at=_moment(value.get("running_at")),
            has_result=bool(value.get("has_result")),
            result=value.get("result"),
        )

    def stopped(self, stop: Stop) -> Seen:
        return replace(self, stop=stop)

    def _reached(self) -> Seen:
        """After a look that was answered. An outage of submitting ends only with a job: looking up and submitting might
        take turns for ever."""
        return self if self.unsure else replace(self, away_since=None)

    def _follow(self, job_id: str, now: datetime, *, adopted: bool) -> Seen:
        due = frozenset({STATUS})
        return replace(self, job_id=job_id, adopted=adopted, since=now, due=due, cursor=None, away_since=None)

    def _learn_status(self, status: JobStatus, now: datetime) -> Seen:
        before = self.status
        changed = before is None or (before.state, before.task_state_counts) != (status.state, status.task_state_counts)
        finished = status.state.finished
        stale = self.stale or changed or finished
        due = self.due - {STATUS} | {LOGS} | ({TASKS} if stale else set())
        submitted = status.submitted_at
        return replace(
            self,
            status=status,
            due=due,
            stale=stale,
            missing_since=None,
            since=submitted if self.adopted and submitted else self.since,
            cursor=self.cursor or LogCursor(status.job_id, _milliseconds(submitted)),
            finished_at=self.finished_at or (now if finished else None),
        )

    def _learn_tasks(self, tasks: tuple[TaskStatus, ...], now: datetime) -> Seen:
        placed = bool(tasks) and all(task.placed or _has_run(task) for task in tasks)
        running = bool(tasks) and all(_has_run(task) for task in tasks)
        new = {task.worker_id for task in tasks if task.worker_id} - self.workers.keys()
        return replace(
            self,
            tasks=tasks,
            stale=False,
            due=self.due - {TASKS} | ({WORKERS} if new else set()),
            places=_places(tasks, self.workers) or self.places,
            setbacks={**self.setbacks, **_setbacks(tasks)},
            placed_at=self.placed_at or (now if placed else None),
            running_at=self.running_at or (now if running else None),
            # The last lines are awaited from here: an outage between the end and this read delays them too.
            finished_at=now if self.finished_at else None,
        )

    def _learn_logs(self, page: LogPage) -> Seen:
        found, result = find_result(page.lines)
        return replace(
            self,
            cursor=page.cursor,
            due=self.due if page.full else self.due - {LOGS},
            quiet=not page.lines,
            deaf=False,
            has_result=self.has_result or found,
            result=result if found else self.result,
        )

    def _learn_error(self, action: Action, error: IrisError, now: datetime) -> Seen:
        away = replace(self, away_since=self.away_since or now, pause=True, due=frozenset())
        unanswered = isinstance(error, IrisUnavailableError)
        match action:
            case LookUp(job_id) if isinstance(error, JobNotFoundError):
                return replace(self._reached(), found={**self.found, job_id: None})
            case LookUp() if unanswered:
                return away
            case Submit() if unanswered:
                # The job may be there nevertheless. Look again, then submit if it is not.
                return replace(away, found={}, unsure=True)
            case Submit() if isinstance(error, JobExistsError) and self.refused is None:
                # Perhaps it is ours: the reply to an earlier try of this very call was lost. Look again.
                return replace(self, refused=error, found={})
            case LookUp() | Submit():
                return replace(self, failed=error)
            case ReadLogs():
                # A log service that is away never ends a watch; its lines come with a later read.
                return replace(self, due=self.due - {LOGS}, quiet=False, deaf=True)
            case ReadTail():
                return replace(self, tail=())
            case ReadResult(replica=replica) if unanswered or error.code in _PASSING or not self.succeeded:
                # The end of the job is known; only what it returned is not, or what a failed one raised.
                return replace(self, asked=self.asked | {replica}, unread=error)
            case ReadWorkers():
                return replace(self, due=self.due - {WORKERS})
            case Terminate(job_id) if isinstance(error, JobNotFoundError) and job_id != self.job_id:
                return replace(self, found={**self.found, job_id: None})
            case Terminate() if isinstance(error, JobNotFoundError):
                return replace(self, terminated=True, farewell=True)
            case Terminate() if self.failed is not None:
                return replace(self, farewell=True)
            case Terminate() if unanswered:
                return replace(away, farewell=True)
            case Terminate():
                return replace(self, failed=error)
        if isinstance(error, JobNotFoundError):
            return replace(self, due=frozenset(), missing_since=self.missing_since or now, away_since=None)
        if unanswered or error.code in _PASSING:
            return away
        return replace(self, failed=error)


def launch_token(status: JobStatus) -> str:
    """The token that a job was submitted with, "" for jobs that are not from here."""
    return status.request_env.get(LAUNCH_ENV, "")


def _has_run(task: TaskStatus) -> bool:
    return task.state is TaskState.RUNNING or task.started_at is not None or task.state is TaskState.SUCCEEDED


def _setbacks(tasks: tuple[TaskStatus, ...]) -> dict[int, int]:
    latest = {
        task.index: max((attempt.attempt_id for attempt in task.attempts if attempt.state in SETBACK), default=-1)
        for task in tasks
    }
    return {replica: attempt for replica, attempt in latest.items() if attempt >= 0}


def _places(tasks: tuple[TaskStatus, ...], workers: Mapping[str, Worker]) -> dict[str, int]:
    """Replicas per slice, per worker outside slices. Empty unless all are placed on workers that are known."""
    if not all(task.worker_id in workers for task in tasks):
        return {}
    slices = {task.worker_id: workers[task.worker_id].attributes.get("tpu-name") for task in tasks}
    names = (f"slice {name}" if (name := slices[task.worker_id]) else f"worker {task.worker_id}" for task in tasks)
    return dict(sorted(Counter(names).items()))


def _milliseconds(moment: datetime | None) -> int:
    return round(moment.timestamp() * 1000) if moment else 0


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
