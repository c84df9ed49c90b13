"""The decision: one function from the plan, what was seen and the time to the next action."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fray_airflow.errors import (
    IrisError,
    IrisUnavailableError,
    JobKilledError,
    JobNotFoundError,
    JobTimeoutError,
    PlacementTimeoutError,
)
from fray_airflow.lifecycle.actions import (
    Action,
    Finish,
    ReadBands,
    ReadLogs,
    ReadStatus,
    ReadTail,
    ReadTasks,
    ReadWorkers,
    Submit,
    Terminate,
    Wait,
)
from fray_airflow.lifecycle.advance import advance, placement_limit
from fray_airflow.lifecycle.claim import claim
from fray_airflow.lifecycle.delivery import is_awaited, next_result, read_of
from fray_airflow.lifecycle.ends import end_of, first_failure
from fray_airflow.lifecycle.learn import adopt
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.seen import BANDS, LOGS, STATUS, TASKS, WORKERS, Seen, Stop
from fray_airflow.lifecycle.slices import jobs_of
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus

MISSING_GRACE = timedelta(seconds=60)
"""How long a job may be unknown to the controller: one that was restored from a checkpoint may still catch up."""

LAST_LINES_GRACE = timedelta(seconds=2)
"""Iris shows lines about 1.5 s after they are written, so also after the end of the job."""
CATCH_UP_GRACE = timedelta(seconds=8)
"""After an outage its workers deliver what they held back within 5 s."""
LONGEST_DRAIN = timedelta(seconds=30)
DRAIN_INTERVAL = 0.5

SHORTEST_INTERVAL = 0.5


def step(plan: Plan, seen: Seen, now: datetime) -> tuple[Seen, Action]:
    """What to do next, and what is known by then. Total: every state of knowledge has an answer."""
    if seen.failed is None and seen.finished_at is None and not seen.terminated:
        error = _given_up(plan, seen, now)
        seen = replace(seen, failed=error) if error else seen
    if seen.failed is not None:
        further = advance(plan, seen, now)
        return step(plan, further, now) if further else (seen, _part(plan, seen, seen.failed))
    if not seen.job_id:
        decision = _before_submission(plan, seen, now)
        if not isinstance(decision, JobStatus):
            return seen, _unless_stopped(plan, seen, decision, now)
        seen = adopt(seen, decision, now)
    stop = _due_stop(plan, seen, now)
    if stop is not None:
        seen = seen.stopped(stop)
    outcome = _watch(plan, seen, now)
    return step(plan, outcome, now) if isinstance(outcome, Seen) else (seen, outcome)


def _before_submission(plan: Plan, seen: Seen, now: datetime) -> Action | JobStatus:
    if seen.pause:
        return Wait(plan.poll_interval)
    if seen.not_before is not None and now < seen.not_before and seen.stop is None:
        return Wait(min(plan.poll_interval, (seen.not_before - now).total_seconds()))
    return claim(plan, seen)


def _part(plan: Plan, seen: Seen, error: IrisError) -> Action:
    """The end without the job's own. It is terminated first if nobody comes to adopt it; asking once must do."""
    live = seen.job_id and seen.finished_at is None and not seen.farewell
    return Terminate(seen.job_id) if live and plan.last_try else Finish(error=error)


def _unless_stopped(plan: Plan, seen: Seen, action: Action, now: datetime) -> Action:
    """Nothing is submitted for a task that has been killed, or whose time is over."""
    if not isinstance(action, Submit):
        return action
    late = plan.deadline is not None and now >= plan.deadline
    stop = seen.stop or (Stop.DEADLINE if late else None)
    return action if stop is None else Finish(error=_stopped(plan, seen.stopped(stop)))


def _watch(plan: Plan, seen: Seen, now: datetime) -> Action | Seen:
    """The next action, or what is known at the start of the next launch."""
    if seen.stop is not None:
        if seen.terminated:
            return advance(plan, seen, now) or Finish(error=_stopped(plan, seen))
        return Wait(_until_next_look(plan, seen, now)) if seen.pause else Terminate(seen.job_id)
    if STATUS in seen.due:
        return ReadStatus(seen.job_id)
    if seen.status is not None and seen.status.survivors and not seen.pause:
        return Terminate(seen.job_id)
    if TASKS in seen.due:
        return ReadTasks(seen.job_id)
    if WORKERS in seen.due:
        return ReadWorkers()
    if BANDS in seen.due:
        return ReadBands(tuple(jobs_of(plan, seen)))
    if LOGS in seen.due and seen.cursor is not None:
        return ReadLogs(seen.cursor)
    if seen.finished_at is None:
        return Wait(_until_next_look(plan, seen, now))
    # An end that was seen counts, even if nothing more can be learnt of it.
    if (question := next_result(plan, seen)) is not None:
        return question
    if _given_up(plan, seen, now) is None and (not _drained(seen, now) or is_awaited(plan, seen, now)):
        away = seen.away_since or seen.unread
        return Wait(_until_next_look(plan, seen, now) if away else DRAIN_INTERVAL)
    if (further := advance(plan, seen, now)) is not None:
        return further
    failure = first_failure(seen.tasks)
    if failure is not None and seen.tail is None and seen.cursor is not None and _ended_badly(seen):
        return ReadTail(seen.cursor, failure.replica)
    if failure is not None and plan.result != "none" and not seen.asked and _ended_badly(seen):
        return read_of(seen, failure.replica, failure.attempt)
    return end_of(plan, seen)


def _due_stop(plan: Plan, seen: Seen, now: datetime) -> Stop | None:
    """Whether one of the author's timeouts has passed."""
    if not seen.job_id or seen.stop is not None or seen.finished_at is not None:
        return None
    # The last look may have been long ago: since then the job may have ended, or been placed.
    if STATUS in seen.due:
        return None
    if plan.deadline is not None and now >= plan.deadline:
        return Stop.DEADLINE
    limit = placement_limit(plan, seen)
    unknown = seen.stale or seen.away_since is not None or seen.missing_since is not None
    if limit is not None and now >= limit and not unknown:
        return Stop.PLACEMENT
    held = _hold_limit(plan, seen)
    return Stop.HOLD if held is not None and now >= held and not unknown else None


def _hold_limit(plan: Plan, seen: Seen) -> datetime | None:
    if seen.partial_since is None or plan.rungs[seen.round.rung].slices == 1:
        return None
    return seen.partial_since + timedelta(seconds=plan.hold_timeout)


def _until_next_look(plan: Plan, seen: Seen, now: datetime) -> float:
    """A tenth of the job's age, up to the poll interval: short jobs are seen to end soon, long ones cost few calls."""
    age = (now - seen.since).total_seconds() if seen.since else 0.0
    interval = min(plan.poll_interval, max(SHORTEST_INTERVAL, age / 10))
    limits = (plan.deadline, placement_limit(plan, seen), _hold_limit(plan, seen))
    ahead = [(limit - now).total_seconds() for limit in limits if limit is not None and limit > now]
    return max(0.05, min([interval, *ahead]))


def _given_up(plan: Plan, seen: Seen, now: datetime) -> IrisError | None:
    state = seen.status.state.name if seen.status else ""
    job_id = seen.job_id or plan.job.job_id
    # Not before the call after a wait: the controller may be back.
    away_since = seen.away_since if seen.pause else None
    if away_since is not None and now - away_since > timedelta(seconds=plan.outage_tolerance):
        return IrisUnavailableError(
            f"Iris has not answered for {plan.outage_tolerance:g} s (outage_tolerance). {job_id} may still run: "
            + ("look for it there." if plan.last_try else "the next try of this task adopts it."),
            job_id=job_id,
            state=state,
            code="unavailable",
        )
    if seen.missing_since is not None and now - seen.missing_since > MISSING_GRACE:
        return JobNotFoundError(
            f"Iris does not know {seen.job_id} any more. It was deleted, or the controller lost its database; "
            "clear the task to run it again.",
            job_id=seen.job_id,
            state=state,
            code="not_found",
        )
    return None


def _drained(seen: Seen, now: datetime) -> bool:
    if seen.finished_at is None or seen.stale:
        return False
    waited = now - seen.finished_at
    caught_up = seen.back_at is None or now - seen.back_at >= CATCH_UP_GRACE
    return (seen.quiet and caught_up and waited >= LAST_LINES_GRACE) or waited >= LONGEST_DRAIN


def _ended_badly(seen: Seen) -> bool:
    return seen.status is not None and not seen.succeeded


def _stopped(plan: Plan, seen: Seen) -> IrisError:
    reason = seen.status.pending_reason if seen.status else ""
    kind, text = _why(plan, seen, reason)
    job_id = seen.job_id or plan.job.job_id
    what = "was terminated" if seen.job_id else "was not submitted"
    return kind(f"{job_id} {what}: {text}", job_id=job_id, state=JobState.KILLED.name, pending_reason=reason)


def _why(plan: Plan, seen: Seen, reason: str) -> tuple[type[IrisError], str]:
    match seen.stop:
        case Stop.DEADLINE:
            return JobTimeoutError, "the task's execution_timeout passed. Raise it, or ask for more machines."
        case Stop.KILLED:
            return JobKilledError, "the task was marked or cleared in Airflow."
    before = "".join(f" Before it: {each}." for each in seen.passed)
    return PlacementTimeoutError, (
        f"not all of its {plan.rungs[seen.round.rung].replicas} replicas were placed within {plan.placement_timeout} s "
        f"(placement_timeout). Iris's last reason: {reason or 'none given'}.{before} "
        + (seen.advice or "Wait longer, or ask for machines that are free.")
    )
