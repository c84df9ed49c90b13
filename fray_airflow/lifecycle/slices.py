"""A launch with a job per slice, for a machine that thinks of one job: its calls and the sum of their replies.

The first slice's job gives the launch its name. Replicas are numbered through: those of slice 0, those of slice 1, ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fray_airflow.errors import IrisError, IrisUnavailableError, JobExistsError, JobNotFoundError
from fray_airflow.identity import name_at
from fray_airflow.lifecycle.actions import (
    Action,
    LookUp,
    ReadLogs,
    ReadResult,
    ReadStatus,
    ReadTail,
    ReadTasks,
    Submit,
    Terminate,
)
from fray_airflow.lifecycle.claim import launch_token, round_of
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.logs import LogCursor, LogPage
from fray_airflow.rung import Rung
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus, TaskStatus

_FOREVER = datetime.max.replace(tzinfo=UTC)

Calls = Generator[Action, Any, Any]
"""Yields calls, takes the reply of each (an IrisError if it failed), and returns the reply to the whole."""


def calls_of(plan: Plan, seen: Seen, action: Action) -> Calls:
    """What `action` takes: itself, or the same for each slice of the launch."""
    rung = plan.rungs[min(seen.round.rung, len(plan.rungs) - 1)]
    match action:
        case LookUp(job_id) if plan.has_slices:
            return (yield from _look_up(plan, job_id))
        case Submit() if plan.rungs[action.round.rung].slices > 1:
            return (yield from _submit(action, plan.rungs[action.round.rung].slices))
        case Terminate(job_id) if plan.has_slices:
            return (yield from _terminate(_jobs(plan, seen, job_id)))
        case ReadStatus(job_id) if rung.slices > 1:
            return (yield from _read_status(_names(job_id, rung.slices)))
        case ReadTasks(job_id) if rung.slices > 1:
            return (yield from _read_tasks(_names(job_id, rung.slices), rung))
        case ReadLogs(cursor) if rung.slices > 1:
            return (yield from _read_logs(cursor, rung))
        case ReadTail(cursor, replica) if rung.slices > 1:
            slice, index = divmod(replica, rung.replicas // rung.slices)
            return (yield ReadTail((cursor, *cursor.others)[slice], index))
        case ReadResult(job_id, replica) if rung.slices > 1:
            slice, index = divmod(replica, rung.replicas // rung.slices)
            return (yield replace(action, job_id=name_at(job_id, slice=slice), replica=index))
    return (yield action)


def jobs_of(plan: Plan, seen: Seen) -> list[str]:
    """The ids of the jobs of the current launch, whether they are there yet or not."""
    rung = plan.rungs[min(seen.round.rung, len(plan.rungs) - 1)]
    return _names(seen.job_id or plan.job.at(seen.round.number).job_id, rung.slices)


def sum_of(parts: Sequence[JobStatus], missing: int = 0) -> JobStatus:
    """The launch as one job. It ends with the first of its jobs that comes to nothing, and else with the last."""
    first, failed = parts[0], _first_failed(parts)
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.task_state_counts)
    waiting = ((number, part.pending_reason) for number, part in enumerate(parts) if part.pending_reason)
    return replace(
        first,
        state=failed.state if failed else _state(parts),
        submitted_at=min((each.submitted_at for each in parts if each.submitted_at), default=None),
        started_at=min((each.started_at for each in parts if each.started_at), default=None),
        finished_at=max((each.finished_at for each in parts if each.finished_at), default=None),
        error=failed.error if failed else first.error,
        pending_reason=next((f"slice {number}: {reason}" for number, reason in waiting), ""),
        task_count=sum(part.task_count for part in parts),
        task_state_counts=dict(counts),
        failure_count=sum(part.failure_count for part in parts),
        preemption_count=sum(part.preemption_count for part in parts),
        slices=tuple(parts),
        missing=missing,
    )


def _first_failed(parts: Sequence[JobStatus]) -> JobStatus | None:
    """Where the trouble began; jobs that were killed may only have followed."""
    failed = [part for part in parts if part.state.finished and part.state is not JobState.SUCCEEDED]
    own = [part for part in failed if part.state is not JobState.KILLED] or failed
    return min(own, key=lambda part: part.finished_at or _FOREVER, default=None)


def _state(parts: Sequence[JobStatus]) -> JobState:
    states = {part.state for part in parts}
    if states == {JobState.SUCCEEDED}:
        return JobState.SUCCEEDED
    if JobState.SUCCEEDED in states:
        return JobState.RUNNING
    known = (JobState.RUNNING, JobState.BUILDING, JobState.PENDING)
    return next((state for state in known if state in states), parts[0].state)


def _look_up(plan: Plan, job_id: str) -> Calls:
    first = yield LookUp(job_id)
    if not isinstance(first, JobStatus):
        return first
    where = round_of(first).rung
    count = plan.rungs[where].slices if where < len(plan.rungs) else 1
    parts, missing = [first], 0
    for name in _names(job_id, count)[1:]:
        reply = yield LookUp(name)
        if isinstance(reply, JobStatus) and launch_token(reply) == launch_token(first):
            parts.append(reply)
        elif isinstance(reply, JobStatus | JobNotFoundError):
            missing += 1
        else:
            return reply
    return sum_of(parts, missing) if count > 1 else first


def _submit(action: Submit, count: int) -> Calls:
    """All or none: what an earlier driver has launched of it stays, and after a refusal nothing does."""
    launched: list[str] = []
    for number in range(count):
        job = replace(action.job, job_id=name_at(action.job.job_id, slice=number))
        reply = yield replace(action, job=job, slice=number)
        if isinstance(reply, JobExistsError) and not action.replace:
            there = yield LookUp(job.job_id)
            ours = isinstance(there, JobStatus) and launch_token(there) == job.token
            reply = there.job_id if ours and not there.state.finished else reply
        if isinstance(reply, IrisError):
            if not isinstance(reply, IrisUnavailableError):
                yield from _terminate(launched)
            return reply
        launched.append(str(reply))
    return launched[0]


def _terminate(job_ids: Iterable[str]) -> Calls:
    """One that is gone already needs no more; of the others, what went wrong first."""
    fault: IrisError | None = None
    for job_id in job_ids:
        reply = yield Terminate(job_id)
        if isinstance(reply, IrisError) and not isinstance(reply, JobNotFoundError):
            fault = fault or reply
    return fault


def _read_status(job_ids: Sequence[str]) -> Calls:
    parts = []
    for job_id in job_ids:
        reply = yield ReadStatus(job_id)
        if not isinstance(reply, JobStatus):
            return reply
        parts.append(reply)
    return sum_of(parts)


def _read_tasks(job_ids: Sequence[str], rung: Rung) -> Calls:
    size = rung.replicas // rung.slices
    tasks: list[TaskStatus] = []
    for number, job_id in enumerate(job_ids):
        reply = yield ReadTasks(job_id)
        if isinstance(reply, IrisError):
            return reply
        tasks.extend(replace(task, slice=number, offset=number * size) for task in reply)
    return tasks


def _read_logs(cursor: LogCursor, rung: Rung) -> Calls:
    size = rung.replicas // rung.slices
    lines, cursors, full = [], [], False
    for number, part in enumerate((replace(cursor, others=()), *cursor.others)):
        page = yield ReadLogs(part)
        if not isinstance(page, LogPage):
            return page
        lines += [replace(line, slice=number, replica=line.replica + number * size) for line in page.lines]
        cursors.append(page.cursor)
        full = full or page.full
    return LogPage(tuple(lines), replace(cursors[0], others=tuple(cursors[1:])), full)


def _jobs(plan: Plan, seen: Seen, job_id: str) -> list[str]:
    status = seen.status if job_id == seen.job_id else seen.found.get(job_id)
    if status is not None and status.slices:
        return [part.job_id for part in status.slices]
    return jobs_of(plan, seen) if job_id == seen.job_id else [job_id]


def _names(job_id: str, count: int) -> list[str]:
    return [name_at(job_id, slice=number) for number in range(count)]
