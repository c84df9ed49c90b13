"""What the job's function returned, or its command pushed: which envelopes are asked for, and how long."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fray_airflow.errors import IrisError, IrisUnavailableError, JobFailedError
from fray_airflow.lifecycle.actions import ReadResult
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.results import Envelope
from fray_airflow.states import JobState

LONGEST_SILENCE = timedelta(seconds=30)
"""A runner ends only after the log service has taken its result, which is readable within a second."""


_UNSENT = {
    "function": "program ended without returning (os._exit, exec)",
    "command": 'command did not push one (python "$IRIS_WORKDIR/_fray/push_result.py" FILE, in a shell)',
}


def missing(plan: Plan, seen: Seen) -> list[int]:
    """The replicas of a job that succeeded whose results are wanted and have not come."""
    if not seen.succeeded:
        return []
    wanted = {"first": 1, "all": plan.rungs[seen.round.rung].replicas}.get(plan.result, 0)
    return [replica for replica in range(wanted) if "value" not in seen.results.get(replica, {})]


def next_result(plan: Plan, seen: Seen) -> ReadResult | None:
    """The question to ask now. Each replica is asked once between waits; after an answer that failed, none is."""
    if seen.stale or (seen.unread is not None and seen.asked):
        return None
    return next((read_of(seen, replica) for replica in missing(plan, seen) if replica not in seen.asked), None)


def read_of(seen: Seen, replica: int, attempt: int | None = None) -> ReadResult:
    """Of the last attempt if none is given: earlier ones have come to nothing."""
    if attempt is None:
        attempts = (each.attempt_id for task in seen.tasks if task.index == replica for each in task.attempts)
        attempt = max(attempts, default=0)
    since_ms = seen.cursor.since_ms if seen.cursor else 0
    return ReadResult(seen.job_id, replica, attempt, since_ms)


def is_awaited(plan: Plan, seen: Seen, now: datetime) -> bool:
    """Whether to ask again. A log service that is away is borne like a controller that is."""
    if seen.finished_at is None or not missing(plan, seen):
        return False
    patience = LONGEST_SILENCE if seen.unread is None else timedelta(seconds=plan.outage_tolerance)
    return now - seen.finished_at < patience


def delivered(plan: Plan, seen: Seen) -> Envelope | list[Envelope] | Any:
    """The envelope, or with "all" a list of them by replica; the marked line of a job that sends none."""
    if plan.result in ("none", "uri"):
        return seen.result
    return [seen.results[replica] for replica in sorted(seen.results)] if plan.result == "all" else seen.results[0]


def not_delivered(plan: Plan, seen: Seen) -> IrisError | None:
    """The error of a job that succeeded for nothing."""
    lost = missing(plan, seen)
    if not lost:
        return None
    which = f"replica {lost[0]}" + (f" and {len(lost) - 1} others" if len(lost) > 1 else "")
    if seen.unread is not None or seen.away_since is not None:
        return IrisUnavailableError(
            f"{seen.job_id} SUCCEEDED, but the result of {which} cannot be read: {seen.unread or 'Iris is away'} "
            + ("Its log still has it." if plan.last_try else "The next try of this task reads it."),
            job_id=seen.job_id,
            state=JobState.SUCCEEDED.name,
            code="unavailable",
        )
    return JobFailedError(
        f"{seen.job_id} SUCCEEDED, but no result of {which} has come. Either its {_UNSENT[plan.result_of]}, or the log "
        "service lost it. Clear the task to run it again.",
        job_id=seen.job_id,
        state=JobState.SUCCEEDED.name,
    )
