"""Jobs that still run though their task has been marked. For an API server: reads Airflow's database; blocking."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, select

from fray_airflow.errors import JobNotFoundError
from fray_airflow.hooks import IrisHook
from fray_airflow.identity import LAUNCH_ENV, same_place
from fray_airflow.task_state import END_STATES, JOBS_KEY, LaunchedJobs

if TYPE_CHECKING:
    from fray_airflow.iris import IrisClient

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0


def end_leftovers(try_ids: Sequence[UUID]) -> set[UUID]:
    """Ends the jobs of those tries whose task is in an end state by now, except those that are to be kept.

    Returns the tries whose Iris did not answer. May be called twice. Raises what Airflow's database does.
    """
    by_connection: dict[str, list[tuple[UUID, LaunchedJobs]]] = {}
    for try_id, launched in _launched(try_ids):
        by_connection.setdefault(launched.iris_conn_id, []).append((try_id, launched))
    return {try_id for conn_id, found in by_connection.items() for try_id in _end(conn_id, found)}


def _launched(try_ids: Sequence[UUID]) -> list[tuple[UUID, LaunchedJobs]]:
    """A task that was cleared since has another try, whose runner ends what the old one left."""
    same_instance = and_(
        TaskInstance.dag_id == XComModel.dag_id,
        TaskInstance.run_id == XComModel.run_id,
        TaskInstance.task_id == XComModel.task_id,
        TaskInstance.map_index == XComModel.map_index,
    )
    query = (
        select(TaskInstance.id, XComModel.value)
        .join(XComModel, same_instance)
        .where(XComModel.key == JOBS_KEY, TaskInstance.id.in_(try_ids), TaskInstance.state.in_(END_STATES))
    )
    with create_session() as session:
        rows = [(row.id, XComModel.deserialize_value(row)) for row in session.execute(query)]
    known = [(try_id, LaunchedJobs.from_json(value)) for try_id, value in rows]
    return [(try_id, launched) for try_id, launched in known if launched is not None and launched.ends_on_kill]


def _end(conn_id: str, found: Sequence[tuple[UUID, LaunchedJobs]]) -> set[UUID]:
    """Those that are still to be looked at. A controller that has not answered once is not asked for the others."""
    left = dict(found)
    try:
        with IrisHook(conn_id).get_conn() as client, client.hurried(_CALL_SECONDS) as hurried:
            for try_id, launched in found:
                for job_id in launched.job_ids:
                    _end_job(hurried, job_id, launched.token)
                del left[try_id]
    except Exception as error:
        # Whatever it is (a connection that is gone, a token that was refused), the other connections have their turn.
        jobs = ", ".join(job_id for launched in left.values() for job_id in launched.job_ids)
        log.warning("Jobs of marked tasks may still run, and will be looked at again (%s): %s", error, jobs)
    return set(left)


def _end_job(client: IrisClient, job_id: str, token: str) -> None:
    try:
        status = client.job_status(job_id)
    except JobNotFoundError:
        return
    # Somebody may have submitted another job under the name since.
    if status.state.finished or not same_place(status.request_env.get(LAUNCH_ENV, ""), token):
        return
    log.warning("Its task was marked, and nobody else could be told: terminating %s", job_id)
    client.terminate(job_id)
