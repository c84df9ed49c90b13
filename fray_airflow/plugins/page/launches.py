"""Which jobs Airflow's tasks launched, as Airflow's database knows it. Reads only; blocking.

The database is Airflow's own affair, so this is the one module that looks into it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import Select, and_, exists, select
from sqlalchemy.orm import Session, aliased

from fray_airflow.hooks import IrisHook
from fray_airflow.task_state import JOB_ID_KEY, JOBS_KEY

_KEYS = (JOBS_KEY, JOB_ID_KEY)
_JOB_ID = re.compile(r"/[^/\s]+/\S+")
_NEWEST = 200
"""How many launches are looked through for the connections that are in use."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A task instance and the jobs of its current try. `task_state` is "" for one that was just cleared."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    conn_id: str
    job_ids: tuple[str, ...]
    task_state: str
    try_number: int
    pushed_at: datetime


def readable_dags(user: Any) -> set[str]:
    """The DAGs with launches whose XComs `user` may read."""
    manager = get_auth_manager()
    allowed: set[str] = manager.get_authorized_dag_ids(user=user, method="GET")
    with create_session() as session:
        launching = set(session.scalars(select(XComModel.dag_id).where(XComModel.key.in_(_KEYS)).distinct()))
    return {dag_id for dag_id in allowed & launching if _may_read(manager, dag_id, user)}


def recent(user: Any, *, dag_contains: str = "", offset: int = 0, limit: int = 25) -> tuple[list[Launched], bool]:
    """The newest launches that `user` may see, and whether there are more."""
    dags = readable_dags(user)
    if dag_contains:
        dags = {dag_id for dag_id in dags if dag_contains.lower() in dag_id.lower()}
    query = _launches().where(XComModel.dag_id.in_(dags))
    with create_session() as session:
        rows = list(session.execute(query.offset(offset).limit(limit + 1)))
        return _read(rows[:limit], session), len(rows) > limit


def one(dag_id: str, run_id: str, task_id: str, map_index: int) -> Launched | None:
    """What one task instance launched. Whether the user may see it has been checked."""
    query = _launches().where(
        XComModel.dag_id == dag_id,
        XComModel.run_id == run_id,
        XComModel.task_id == task_id,
        XComModel.map_index == map_index,
    )
    with create_session() as session:
        return next(iter(_read(session.execute(query.limit(1)), session)), None)


def connections(user: Any) -> list[str]:
    """The connections of launches that `user` may see, the latest first, or the default one if there is none."""
    with create_session() as session:
        query = _launches().where(XComModel.dag_id.in_(readable_dags(user))).limit(_NEWEST)
        used = [launched.conn_id for launched in _read(session.execute(query), session)]
    return list(dict.fromkeys(used)) or [IrisHook.default_conn_name]


def _may_read(manager: Any, dag_id: str, user: Any) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return bool(manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.XCOM, details=details, user=user))


def _launches() -> Select[Any]:
    """One row a task instance: its XCom with all jobs, or the one with a single job where that is all there is."""
    better = aliased(XComModel)
    superseded = exists().where(
        better.dag_run_id == XComModel.dag_run_id,
        better.task_id == XComModel.task_id,
        better.map_index == XComModel.map_index,
        better.key == JOBS_KEY,
    )
    same_instance = and_(
        TaskInstance.dag_id == XComModel.dag_id,
        TaskInstance.run_id == XComModel.run_id,
        TaskInstance.task_id == XComModel.task_id,
        TaskInstance.map_index == XComModel.map_index,
    )
    return (
        select(
            XComModel.dag_id,
            XComModel.run_id,
            XComModel.task_id,
            XComModel.map_index,
            XComModel.key,
            XComModel.value,
            XComModel.timestamp,
            TaskInstance.state,
            TaskInstance.try_number,
        )
        .join(TaskInstance, same_instance)
        .where((XComModel.key == JOBS_KEY) | ((XComModel.key == JOB_ID_KEY) & ~superseded))
        .order_by(XComModel.timestamp.desc(), XComModel.dag_run_id, XComModel.task_id, XComModel.map_index)
    )


def _read(rows: Iterable[Any], session: Session) -> list[Launched]:
    return [launched for row in rows if (launched := _launched(row, session)) is not None]


def _launched(row: Any, session: Session) -> Launched | None:
    """None for an XCom that is not ours: `job_id` is a name that other operators use too."""
    known, conn_id = _jobs(_value(row.value))
    if not known:
        return None
    return Launched(
        dag_id=row.dag_id,
        run_id=row.run_id,
        task_id=row.task_id,
        map_index=row.map_index,
        conn_id=conn_id or _rendered_connection(row, session),
        job_ids=known,
        task_state=str(getattr(row.state, "value", row.state) or ""),
        try_number=row.try_number,
        pushed_at=row.timestamp,
    )


def _jobs(value: Any) -> tuple[tuple[str, ...], str]:
    """The job ids in an XCom, and the connection where it names one."""
    if not isinstance(value, dict):
        return ((value,), "") if _is_job(value) else ((), "")
    job_ids, conn_id = value.get("job_ids"), value.get("iris_conn_id")
    known = tuple(filter(_is_job, job_ids)) if isinstance(job_ids, (list, tuple)) else ()
    return known, conn_id if isinstance(conn_id, str) else ""


def _value(stored: Any) -> Any:
    """An XCom backend may keep a JSON value as its text."""
    if isinstance(stored, str) and stored.startswith(("{", '"')):
        try:
            return json.loads(stored)
        except ValueError:
            return stored
    return stored


def _is_job(value: Any) -> bool:
    return isinstance(value, str) and _JOB_ID.fullmatch(value) is not None


def _rendered_connection(row: Any, session: Session) -> str:
    """The operator's argument as it was rendered, which Airflow keeps for the latest runs of a task."""
    fields = session.scalar(
        select(RenderedTaskInstanceFields.rendered_fields).where(
            RenderedTaskInstanceFields.dag_id == row.dag_id,
            RenderedTaskInstanceFields.run_id == row.run_id,
            RenderedTaskInstanceFields.task_id == row.task_id,
            RenderedTaskInstanceFields.map_index == row.map_index,
        )
    )
    named = (fields or {}).get(IrisHook.conn_name_attr)
    return named if isinstance(named, str) and named else IrisHook.default_conn_name
