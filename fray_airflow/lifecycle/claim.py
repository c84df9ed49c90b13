"""Whose job has the name? Adopt it, launch anew, replace it, or refuse."""

from __future__ import annotations

from fray_airflow.errors import JobExistsError
from fray_airflow.identity import LAUNCH_ENV, same_place
from fray_airflow.lifecycle.actions import Finish, LookUp, Submit, Terminate
from fray_airflow.lifecycle.plan import Plan, PlannedJob
from fray_airflow.lifecycle.rounds import LAST_ROUND, ROUND_ENV, Round
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus


def claim(plan: Plan, seen: Seen) -> LookUp | Terminate | Submit | Finish | JobStatus:
    """The next action, or the job to adopt: one that runs, or that ended without anybody there to see it."""
    if seen.round.number:
        return _further(plan, seen)
    for job in (plan.job, *plan.earlier, *plan.former):
        if (unknown := _unknown(plan, seen, job)) is not None:
            return LookUp(unknown.job_id)
    if (ours := _ours(plan, seen)) is not None:
        return _go_on(plan, ours)
    if (orphan := _orphan(plan, seen)) is not None:
        return Terminate(orphan.job_id)
    return _launch(seen, plan.job)


def _further(plan: Plan, seen: Seen) -> LookUp | Submit | Finish | JobStatus:
    """The next launch of a try: this driver has seen how the last one ended, and all that went before."""
    mine = plan.job.at(seen.round.number)
    if mine.job_id not in seen.found:
        return LookUp(mine.job_id)
    holder = seen.found[mine.job_id]
    if holder is not None and launch_token(holder) == mine.token:
        return _go_on(plan, holder)
    return _launch(seen, mine)


def _launch(seen: Seen, job: PlannedJob) -> Submit | Finish:
    holder = seen.found[job.job_id]
    if holder is None:
        return Finish(error=seen.refused) if seen.refused else Submit(job, round=seen.round)
    if same_place(launch_token(holder), job.token):
        return Submit(job, replace=True, round=seen.round)
    return Finish(error=_taken(job, holder))


def _go_on(plan: Plan, status: JobStatus) -> Submit | JobStatus:
    """A launch of ours that is there; the driver may have died between two of its jobs."""
    if status.missing and not status.state.finished:
        where = round_of(status)
        return Submit(plan.job.at(where.number), round=where)
    return status


def launch_token(status: JobStatus) -> str:
    """The token that a job was submitted with, "" for jobs that are not from here."""
    return status.request_env.get(LAUNCH_ENV, "")


def round_of(status: JobStatus) -> Round:
    """Which launch of its try a job belongs to."""
    return Round.from_text(status.request_env.get(ROUND_ENV, ""))


def _rounds(plan: Plan, job: PlannedJob) -> list[PlannedJob]:
    return [job.at(number) for number in range(LAST_ROUND + 1 if plan.has_rounds else 1)]


def _unknown(plan: Plan, seen: Seen, job: PlannedJob) -> PlannedJob | None:
    """The first of a try's rounds that was not looked up yet. A round that is not there had none after it."""
    for each in _rounds(plan, job):
        if each.job_id not in seen.found:
            return each
        if seen.found[each.job_id] is None:
            return None
    return None


def _known(plan: Plan, seen: Seen, job: PlannedJob) -> list[JobStatus]:
    """The jobs of a try that are there, latest first."""
    found = (seen.found.get(each.job_id) for each in _rounds(plan, job))
    there = [status for status in found if status is not None and same_place(launch_token(status), job.token)]
    return there[::-1]


def _ours(plan: Plan, seen: Seen) -> JobStatus | None:
    own = (status for status in _known(plan, seen, plan.job) if launch_token(status) == plan.job.token)
    if (latest := next(own, None)) is not None:
        return latest
    for job in plan.earlier:
        for status in _known(plan, seen, job)[:1]:
            if _still_counts(job, status) and not status.missing:
                return status
    return None


def _orphan(plan: Plan, seen: Seen) -> JobStatus | None:
    """A job that runs on though nobody watches it any more: from before the task was cleared, since its worker died
    without a word; or what is left of a launch of several jobs."""
    left = [status for status in _known(plan, seen, plan.job) if status.job_id != plan.job.job_id]
    left.extend(status for job in (*plan.earlier, *plan.former) for status in _known(plan, seen, job))
    return next((status for status in left if not status.state.finished or status.survivors), None)


def _still_counts(job: PlannedJob, status: JobStatus) -> bool:
    """A job of an earlier try that failed is why there is this try; one that runs or succeeded was only not watched.

    A running one need not be of this very life: clearing another task of the run changes the run's start, and a second
    job beside it would be the costlier mistake.
    """
    return not status.state.finished or (status.state is JobState.SUCCEEDED and launch_token(status) == job.token)


def _taken(job: PlannedJob, holder: JobStatus) -> JobExistsError:
    return JobExistsError(
        f"The name {job.job_id} belongs to a job that this task did not submit ({holder.state}). "
        "Choose another job_name, or terminate that job if it is yours.",
        job_id=job.job_id,
        state=holder.state.name,
        code="already_exists",
    )
