"""Jobs that still run though their task has been marked. For an API server: reads Airflow's database; blocking."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import and_, or_, select, tuple_

from fray_airflow.errors import IrisError, IrisUnavailableError
from fray_airflow.hooks import IrisHook
from fray_airflow.identity import LAUNCH_ENV, same_place
from fray_airflow.plugins.last_look import Mark
from fray_airflow.task_state import END_STATES, JOBS_KEY, LaunchedJobs

if TYPE_CHECKING:
    from fray_airflow.iris import IrisClient

log = logging.getLogger(__name__)

_CALL_SECONDS = 5.0


def end_leftovers(marks: Sequence[Mark]) -> set[UUID]:
    """Ends the jobs of those tries whose task is in an end state by now, except those that are to be kept.

    Returns the tries whose Iris did not answer. May be called twice. Raises what Airflow's database does.
    """
    try_ids = [mark for mark in marks if isinstance(mark, UUID)]
    runs = [mark for mark in marks if not isinstance(mark, UUID)]
    by_connection: dict[str, list[tuple[UUID, LaunchedJobs]]] = {}
    for try_id, launched in _launched(try_ids, runs):
        by_connection.setdefault(launched.iris_conn_id, []).append((try_id, launched))
    return {try_id for conn_id, found in by_connection.items() for try_id in _end(conn_id, found)}


def _launched(try_ids: Sequence[UUID], runs: Sequence[tuple[str, str]]) -> list[tuple[UUID, LaunchedJobs]]:
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
        .where(XComModel.key == JOBS_KEY, TaskInstance.state.in_(END_STATES))
        .where(or_(TaskInstance.id.in_(try_ids), tuple_(TaskInstance.dag_id, TaskInstance.run_id).in_(runs)))
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
            states = hurried.job_states(job_id for launched in left.values() for job_id in launched.job_ids)
            live = {job_id for job_id, state in states.items() if not state.finished}
            for try_id, launched in found:
                if _end_launch(hurried, launched, live):
                    del left[try_id]
    except Exception as error:
        # Whatever it is (a connection that is gone, no answer), the other connections have their turn.
        jobs = ", ".join(job_id for launched in left.values() for job_id in launched.job_ids)
        log.warning("Jobs of marked tasks may still run, and will be looked at again (%s): %s", error, jobs)
    return set(left)


def _end_launch(client: IrisClient, launched: LaunchedJobs, live: Container[str]) -> bool:
    """Whether it needs no further look. Raises IrisUnavailableError."""
    try:
        for job_id in launched.job_ids:
            if job_id in live:
                _end_job(client, job_id, launched.token)
    except IrisUnavailableError:
        raise
    except IrisError as error:
        log.warning("Jobs of a marked task may still run, and will be looked at again: %s", error)
        return False
    return True


def _end_job(client: IrisClient, job_id: str, token: str) -> None:
    status = client.job_status(job_id)
    # Somebody may have submitted another job under the name since.
    if status.state.finished or not same_place(status.request_env.get(LAUNCH_ENV, ""), token):
        return
    log.warning("Its task was marked, and nobody has ended it: terminating %s", job_id)
    client.terminate(job_id)
