"""What is known after an action brought its reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from fray_airflow.errors import PASSING_CODES, IrisError, IrisUnavailableError, JobExistsError, JobNotFoundError
from fray_airflow.gangs import level_advice, missing_level
from fray_airflow.lifecycle.actions import (
    Action,
    LookUp,
    ReadBands,
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
from fray_airflow.lifecycle.claim import round_of
from fray_airflow.lifecycle.seen import BANDS, LOGS, SETBACK, STATUS, TASKS, WORKERS, Seen
from fray_airflow.logs import LogCursor, LogPage, find_result
from fray_airflow.results import read_envelope
from fray_airflow.states import TaskState
from fray_airflow.status import JobStatus, TaskStatus, Worker

MOST_PAGES = 10
"""Full pages of a log in a row: a job with millions of lines that was adopted must not hide its end, nor a deadline."""


def learn(seen: Seen, action: Action, reply: Any, now: datetime) -> Seen:
    """What is known after `action` brought `reply`, which is an IrisError if it failed."""
    if isinstance(reply, IrisError):
        return _error(seen, action, reply, now)
    answered = replace(seen, away_since=None, back_at=now) if seen.away_since else seen
    match action:
        case LookUp(job_id):
            return replace(_reached(seen), found={**seen.found, job_id: reply})
        case Submit():
            return _follow(replace(answered, round=action.round), reply, now, adopted=False)
        case ReadStatus():
            return _status(answered, reply, now)
        case ReadTasks():
            return _tasks(answered, tuple(reply), now)
        case ReadWorkers():
            workers = {**seen.workers, **{worker.worker_id: worker for worker in reply}}
            places = _places(seen.tasks, workers) or seen.places
            advice = _advice(seen, reply)
            return replace(answered, workers=workers, places=places, advice=advice, due=seen.due - {WORKERS})
        case ReadBands():
            return replace(answered, bands=reply, due=seen.due - {BANDS})
        case ReadLogs():
            return _logs(answered, reply)
        case ReadTail():
            return replace(answered, tail=tuple(reply.lines))
        case ReadResult(replica=replica):
            envelopes = [envelope for text in reply if (envelope := read_envelope(text)) is not None]
            results = {**seen.results, replica: envelopes[-1]} if envelopes else seen.results
            return replace(answered, results=results, asked=seen.asked | {replica}, unread=None)
        case Terminate(job_id) if job_id != seen.job_id:
            return replace(answered, found={**seen.found, job_id: None})
        case Terminate() if seen.status is not None and seen.status.survivors and seen.stop is None:
            # Its other slices were told to end: look whether they have.
            return replace(answered, due=frozenset({STATUS}))
        case Terminate():
            return replace(answered, terminated=True, farewell=True)
        case Wait():
            # A finished job changes no more; only its last lines are still on their way.
            due = ({LOGS} if seen.finished_at else {STATUS, LOGS}) | ({TASKS} if seen.stale else set())
            return replace(seen, due=frozenset(due), pause=False, asked=frozenset())
        case _:
            raise TypeError(f"{action!r} has no reply")


def adopt(seen: Seen, status: JobStatus, now: datetime) -> Seen:
    """Makes a job that was found the one to watch."""
    found = replace(seen, round=round_of(status))
    return _status(_follow(found, status.job_id, now, adopted=True), status, now)


def _reached(seen: Seen) -> Seen:
    """After a look that was answered. An outage of submitting ends only with a job: looking up and submitting might
    take turns for ever."""
    return seen if seen.unsure else replace(seen, away_since=None)


def _follow(seen: Seen, job_id: str, now: datetime, *, adopted: bool) -> Seen:
    due = frozenset({STATUS})
    return replace(seen, job_id=job_id, adopted=adopted, since=now, due=due, cursor=None, away_since=None)


def _status(seen: Seen, status: JobStatus, now: datetime) -> Seen:
    before = seen.status
    changed = before is None or (before.state, before.task_state_counts) != (status.state, status.task_state_counts)
    finished = status.state.finished
    stale = seen.stale or changed or finished
    hopeless = not finished and missing_level(status.pending_reason)
    due = seen.due - {STATUS} | {LOGS} | ({TASKS} if stale else set())
    due |= {WORKERS} if hopeless and not seen.advice else set()
    submitted = status.submitted_at
    return replace(
        seen,
        status=status,
        due=due,
        stale=stale,
        advice=seen.advice if hopeless else "",
        pages=0,
        missing_since=None,
        since=submitted if seen.adopted and submitted else seen.since,
        cursor=seen.cursor or _log_start(status),
        finished_at=seen.finished_at or (now if finished else None),
    )


def _log_start(status: JobStatus) -> LogCursor:
    first, *others = [LogCursor(each.job_id, _milliseconds(each.submitted_at)) for each in status.slices or (status,)]
    return replace(first, others=tuple(others))


def _tasks(seen: Seen, tasks: tuple[TaskStatus, ...], now: datetime) -> Seen:
    there = [task.placed or _has_run(task) for task in tasks]
    placed = bool(tasks) and all(there)
    running = bool(tasks) and all(_has_run(task) for task in tasks)
    new = {task.worker_id for task in tasks if task.worker_id} - seen.workers.keys()
    several = seen.status is not None and len(seen.status.slices) > 1 and seen.bands is None
    # Iris counts only what runs: not yet what is being built, though that has begun.
    runs = all(task.state is TaskState.RUNNING for task in tasks)
    due = ({WORKERS} if new else set()) | ({BANDS} if several and runs else set())
    return replace(
        seen,
        tasks=tasks,
        stale=False,
        due=seen.due - {TASKS} | due,
        places=_places(tasks, seen.workers) or seen.places,
        setbacks={**seen.setbacks, **_setbacks(tasks)},
        placed_at=seen.placed_at or (now if placed else None),
        running_at=seen.running_at or (now if running else None),
        partial_since=None if placed or seen.placed_at or not any(there) else seen.partial_since or now,
        # The last lines are awaited from here: an outage between the end and this read delays them too.
        finished_at=now if seen.finished_at else None,
    )


def _logs(seen: Seen, page: LogPage) -> Seen:
    found, result = find_result(page.lines)
    pages = seen.pages + 1 if page.full else 0
    more = frozenset({LOGS}) if pages < MOST_PAGES else frozenset({LOGS, STATUS})
    return replace(
        seen,
        cursor=page.cursor,
        pages=pages,
        due=seen.due | more if page.full else seen.due - {LOGS},
        quiet=not page.lines,
        deaf=False,
        has_result=seen.has_result or found,
        result=result if found else seen.result,
    )


def _error(seen: Seen, action: Action, error: IrisError, now: datetime) -> Seen:
    away = replace(seen, away_since=seen.away_since or now, pause=True, due=frozenset())
    unanswered = isinstance(error, IrisUnavailableError)
    match action:
        case LookUp(job_id) if isinstance(error, JobNotFoundError):
            return replace(_reached(seen), found={**seen.found, job_id: None})
        case LookUp() if unanswered:
            return away
        case Submit() if unanswered:
            # The job may be there nevertheless. Look again, then submit if it is not.
            return replace(away, found={}, unsure=True)
        case Submit() if isinstance(error, JobExistsError) and seen.refused is None:
            # Perhaps it is ours: the reply to an earlier try of this very call was lost. Look again.
            return replace(seen, refused=error, found={})
        case LookUp() | Submit():
            return replace(seen, failed=error)
        case ReadLogs():
            # A log service that is away never ends a watch; its lines come with a later read.
            return replace(seen, due=seen.due - {LOGS}, quiet=False, deaf=True)
        case ReadTail():
            return replace(seen, tail=())
        case ReadResult(replica=replica) if unanswered or error.code in PASSING_CODES or not seen.succeeded:
            # The end of the job is known; only what it returned is not, or what a failed one raised.
            return replace(seen, asked=seen.asked | {replica}, unread=error)
        case ReadWorkers():
            return replace(seen, due=seen.due - {WORKERS})
        case ReadBands():
            return replace(seen, bands={}, due=seen.due - {BANDS})
        case Terminate(job_id) if isinstance(error, JobNotFoundError) and job_id != seen.job_id:
            return replace(seen, found={**seen.found, job_id: None})
        case Terminate() if isinstance(error, JobNotFoundError):
            return replace(seen, terminated=True, farewell=True)
        case Terminate() if seen.failed is not None:
            return replace(seen, farewell=True)
        case Terminate() if unanswered or error.code in PASSING_CODES:
            return replace(away, farewell=True)
        case Terminate():
            return replace(seen, failed=error)
    if isinstance(error, JobNotFoundError):
        return replace(seen, due=frozenset(), missing_since=seen.missing_since or now, away_since=None)
    if unanswered or error.code in PASSING_CODES:
        return away
    return replace(seen, failed=error)


def _has_run(task: TaskStatus) -> bool:
    return task.state is TaskState.RUNNING or task.started_at is not None or task.state is TaskState.SUCCEEDED


def _setbacks(tasks: tuple[TaskStatus, ...]) -> dict[int, int]:
    latest = {
        task.index: max((attempt.attempt_id for attempt in task.attempts if attempt.state in SETBACK), default=-1)
        for task in tasks
    }
    return {replica: attempt for replica, attempt in latest.items() if attempt >= 0}


def _advice(seen: Seen, workers: Iterable[Worker]) -> str:
    level = missing_level(seen.status.pending_reason) if seen.status else ""
    return level_advice(level, workers) if level and not seen.advice else seen.advice


def _places(tasks: tuple[TaskStatus, ...], workers: Mapping[str, Worker]) -> dict[str, int]:
    """Replicas per slice, per worker outside slices. Empty unless all are placed on workers that are known."""
    if not all(task.worker_id in workers for task in tasks):
        return {}
    slices = {task.worker_id: workers[task.worker_id].attributes.get("tpu-name") for task in tasks}
    names = (f"slice {name}" if (name := slices[task.worker_id]) else f"worker {task.worker_id}" for task in tasks)
    return dict(sorted(Counter(names).items()))


def _milliseconds(moment: datetime | None) -> int:
    return round(moment.timestamp() * 1000) if moment else 0
