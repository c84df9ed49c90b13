"""One task instance's launch on a worker: who it is, what it plans, and the calls it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import conf

from fray_airflow.errors import IrisError
from fray_airflow.identity import LaunchIdentity
from fray_airflow.job import JobRequest
from fray_airflow.lifecycle import Action, Conversation, Finish, Plan, PlannedJob, Submit, Wait

if TYPE_CHECKING:
    from airflow.sdk import Context

    from fray_airflow.hooks.connection import ConnectionSettings
    from fray_airflow.iris import IrisClient


@dataclass(frozen=True)
class Launch:
    """Carries out what the machine says, with the author's code and files at hand."""

    client: IrisClient
    job: JobRequest
    base: Path

    def perform(self, action: Action) -> Any:
        """The reply, or the IrisError that came instead of it."""
        try:
            return self._submit(action) if isinstance(action, Submit) else action.on(self.client)  # type: ignore[union-attr]
        except IrisError as error:
            return error

    def _submit(self, action: Submit) -> str:
        from fray_airflow.iris.launch import ERROR, RECREATE
        from fray_airflow.iris.submission import prepare

        _, user, name = action.job.job_id.split("/")
        request = prepare(
            replace(self.job, name=name),
            user=user,
            base=self.base,
            token=action.job.token,
            gpu_gang_level=self.client.options.gpu_gang_level,
            existing_job_policy=RECREATE if action.replace else ERROR,
        )
        return self.client.launch(request)


def drive(
    talk: Conversation,
    perform: Callable[[Action], Any],
    pause: Callable[[float], None],
    *,
    leave: Callable[[Action], bool] = lambda _: False,
) -> Finish | None:
    """Lets the machine run to its end. `leave` may break off before an action; then there is no end."""
    while not isinstance(action := talk.next(), Finish):
        if leave(action):
            return None
        if isinstance(action, Wait):
            pause(action.seconds)
            talk.hear(action, None)
        else:
            talk.hear(action, perform(action))
    return action


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
    job: JobRequest, identity: LaunchIdentity, *, job_name: str | None, first_try: int, **options: Any
) -> Plan:
    """The plan for this try: its job, and those of the tries before it in this life of the task."""

    def planned(who: LaunchIdentity) -> PlannedJob:
        return PlannedJob(f"/{who.user}/{job_name}" if job_name else who.job_id(), who.token())

    tries = range(identity.try_number - 1, max(first_try, 1) - 1, -1)
    return Plan(
        jobs=(planned(identity),),
        earlier=tuple(planned(identity.of_try(number)) for number in tries),
        replicas=job.replica_count,
        chips_per_replica=job.resources.device.chip_count(),
        job_timeout=job.timeout_seconds,
        **options,
    )


def deadline_of(context: Context, execution_timeout: timedelta | None) -> datetime | None:
    """When the author's execution_timeout ends this try: it spans deferrals, as the try's start does."""
    start = context["ti"].start_date
    return start + execution_timeout if execution_timeout is not None and start is not None else None
