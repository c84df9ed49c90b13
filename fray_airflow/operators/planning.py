"""From Airflow's context to a plan: who this try is, which tries came before it, and until when it may run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf

from fray_airflow.identity import LaunchIdentity
from fray_airflow.lifecycle import Plan, PlannedJob
from fray_airflow.operators.rungs import RungJob

if TYPE_CHECKING:
    from airflow.sdk import Context

    from fray_airflow.hooks.connection import ConnectionSettings


def identity_of(context: Context, settings: ConnectionSettings, user: str) -> LaunchIdentity:
    """Who this try of this task instance is."""
    ti, dag_run = context["ti"], context["dag_run"]
    started = dag_run.start_date
    return LaunchIdentity(
        deployment=settings.deployment or conf.get("api", "base_url", fallback="") or "",
        user=user,
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
        try_number=ti.try_number,
        run_start=started.isoformat() if started else "",
    )


def plan_launch(
    rungs: Sequence[RungJob],
    identity: LaunchIdentity,
    *,
    job_name: str | None,
    retries: int,
    max_tries: int,
    end_orphans: bool,
    **options: Any,
) -> Plan:
    """The plan for this try.

    Clearing a task sets `max_tries` to its tries so far plus `retries`; an automatic retry leaves it. So the tries
    before `max_tries - retries + 1` belong to a life that somebody ended by clearing: their jobs are no results of
    this one, and with `end_orphans` those that still run are terminated.
    """
    first_try = max(max_tries - retries + 1, 1)

    def planned(tries: Iterable[int]) -> tuple[PlannedJob, ...]:
        return tuple(_planned(identity.of_try(number), job_name) for number in tries)

    return Plan(
        job=_planned(identity, job_name),
        rungs=tuple(each.rung for each in rungs),
        earlier=planned(range(identity.try_number - 1, first_try - 1, -1)),
        # Under a name of the author's choice there is only one job at a time, which is replaced.
        former=planned(range(first_try - 1, 0, -1)) if end_orphans and not job_name else (),
        last_try=identity.try_number > max_tries,
        job_timeout=rungs[0].job.timeout_seconds,
        **options,
    )


def deadline_of(context: Context, execution_timeout: timedelta | None) -> datetime | None:
    """When the author's execution_timeout ends this try: it spans deferrals, as the try's start does."""
    start = context["ti"].start_date
    return start + execution_timeout if execution_timeout is not None and start is not None else None


def _planned(who: LaunchIdentity, job_name: str | None) -> PlannedJob:
    return PlannedJob(f"/{who.user}/{job_name}" if job_name else who.job_id(), who.token())
