"""Whose job has the name? Adopt it, launch anew, replace it, or refuse."""

from __future__ import annotations

from fray_airflow.errors import JobExistsError
from fray_airflow.identity import same_place
from fray_airflow.lifecycle.actions import Finish, LookUp, Submit, Terminate
from fray_airflow.lifecycle.plan import Plan, PlannedJob
from fray_airflow.lifecycle.seen import Seen, launch_token
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus


def claim(plan: Plan, seen: Seen) -> LookUp | Terminate | Submit | Finish | JobStatus:
    """The next action, or the job to adopt: one that runs, or that ended without anybody there to see it."""
    for job in (plan.job, *plan.earlier, *plan.former):
        if job.job_id not in seen.found:
            return LookUp(job.job_id)
    if (ours := _ours(plan, seen)) is not None:
        return ours
    if (orphan := _orphan(plan, seen)) is not None:
        return Terminate(orphan.job_id)
    holder = seen.found[plan.job.job_id]
    if holder is None:
        return Finish(error=seen.refused) if seen.refused else Submit(plan.job)
    if same_place(launch_token(holder), plan.job.token):
        return Submit(plan.job, replace=True)
    return Finish(error=_taken(plan.job, holder))


def _ours(plan: Plan, seen: Seen) -> JobStatus | None:
    own = seen.found[plan.job.job_id]
    if own is not None and launch_token(own) == plan.job.token:
        return own
    for job in plan.earlier:
        status = seen.found[job.job_id]
        if status is not None and _still_counts(job, launch_token(status), status.state):
            return status
    return None


def _orphan(plan: Plan, seen: Seen) -> JobStatus | None:
    """A job that runs on from before the task was cleared: its worker died without a word, so nobody ended it."""
    for job in plan.former:
        status = seen.found[job.job_id]
        if status is not None and not status.state.finished and same_place(launch_token(status), job.token):
            return status
    return None


def _still_counts(job: PlannedJob, token: str, state: JobState) -> bool:
    """A job of an earlier try that failed is why there is this try; one that runs or succeeded was only not watched.

    A running one need not be of this very life: clearing another task of the run changes the run's start, and a second
    job beside it would be the costlier mistake.
    """
    return same_place(token, job.token) if not state.finished else state is JobState.SUCCEEDED and token == job.token


def _taken(job: PlannedJob, holder: JobStatus) -> JobExistsError:
    return JobExistsError(
        f"The name {job.job_id} belongs to a job that this task did not submit ({holder.state}). "
        "Choose another job_name, or terminate that job if it is yours.",
        job_id=job.job_id,
        state=holder.state.name,
        code="already_exists",
    )
