"""What follows a launch that came to nothing: the next rung, the same one again, or no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fray_airflow.errors import SubmissionRejectedError
from fray_airflow.lifecycle.ends import first_failure
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.report import chip_seconds
from fray_airflow.lifecycle.rounds import LAST_ROUND
from fray_airflow.lifecycle.seen import Seen, Stop
from fray_airflow.states import JobState


def advance(plan: Plan, seen: Seen, now: datetime) -> Seen | None:
    """What is known at the start of the next launch of this try; None if there is none to come."""
    further = _following(plan, seen, now)
    if further is None:
        return None
    # A refused job has not run.
    spent = chip_seconds(plan, seen, now) if seen.job_id else seen.round.chip_seconds
    return replace(further, round=replace(further.round, chip_seconds=spent))


def _following(plan: Plan, seen: Seen, now: datetime) -> Seen | None:
    if not plan.has_rounds or seen.round.number == LAST_ROUND or seen.stop in (Stop.KILLED, Stop.DEADLINE):
        return None
    if isinstance(seen.failed, SubmissionRejectedError):
        # No group of machines can ever serve it. Other refusals are not about the machines.
        return _down(plan, seen, str(seen.failed)) if seen.failed.code == "failed_precondition" else None
    if seen.failed is not None:
        return None
    if seen.stop is Stop.PLACEMENT:
        return _down(plan, seen, _not_placed(seen))
    if seen.stop is Stop.HOLD:
        return _again_later(plan, seen, now)
    return _after_end(plan, seen, now)


def placement_limit(plan: Plan, seen: Seen) -> datetime | None:
    """When the current rung has to be placed; None if it may take for ever, or is placed."""
    since = seen.rung_since or seen.since
    if plan.placement_timeout is None or seen.placed_at is not None or since is None:
        return None
    return since + timedelta(seconds=plan.placement_timeout)


def _after_end(plan: Plan, seen: Seen, now: datetime) -> Seen | None:
    status = seen.status
    if status is None or not status.state.finished:
        return None
    rung = plan.rungs[seen.round.rung]
    if status.state is JobState.UNSCHEDULABLE:
        return _down(plan, seen, f"was never placed: {status.error}")
    if status.state is JobState.KILLED and seen.adopted and seen.placed_at is None:
        # An earlier driver of this try gave it up, and died before it could launch the next.
        return _again_later(plan, seen, now) if rung.slices > 1 else _down(plan, seen, _not_placed(seen))
    if rung.slices == 1:
        return None
    if status.state is JobState.WORKER_FAILED and seen.round.preemptions < plan.slice_preemptions:
        return seen.moved_on(seen.round.after_preemption(), f"a slice lost its machines: {status.error}")
    failure = first_failure(seen.tasks)
    timed_out = failure is not None and plan.job_timeout is not None and failure.seconds >= plan.job_timeout
    if status.state is JobState.FAILED and seen.round.failures < plan.slice_failures and not timed_out:
        where = f"replica {failure.replica} ended with exit code {failure.exit_code}" if failure else status.error
        return seen.moved_on(seen.round.after_failure(), f"a slice failed: {where}")
    return None


def _again_later(plan: Plan, seen: Seen, now: datetime) -> Seen | None:
    """The same rung, after a rest in which others may take the slices that were held."""
    following = seen.round.after_hold()
    resumed = now + following.rest(plan.job.token)
    limit = placement_limit(plan, seen)
    if limit is not None and resumed >= limit:
        return _down(plan, seen, _not_placed(seen))
    return seen.moved_on(following, "only some of its slices were placed, and they were given back", resumed)


def _down(plan: Plan, seen: Seen, why: str) -> Seen | None:
    last = seen.round.rung + 1 >= len(plan.rungs)
    return None if last else seen.moved_on(seen.round.next_rung(), why)


def _not_placed(seen: Seen) -> str:
    reason = " ".join(seen.status.pending_reason.split()) if seen.status else ""
    return f"was not placed in its time: {reason or 'Iris gave no reason'}"
