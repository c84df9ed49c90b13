"""Real Airflow in one process: a throw-away home with a sqlite database, and DAG runs by `dag.test()`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

TASK_ID_ENV = "AIRFLOW_CTX_TASK_ID"
"""Airflow tells a task with it who it is. The kit runs tasks in its own process, so it tells who is running."""


def airflow_environment(home: Path, connections: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, str]:
    """Environment variables for an Airflow that lives in `home` alone. Set them before airflow is imported."""
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        **{f"AIRFLOW_CONN_{name.upper()}": json.dumps(conn) for name, conn in (connections or {}).items()},
    }


def iris_connection(address: str, **fields: Any) -> dict[str, Any]:
    """An Airflow connection to the controller at `address`, with other fields of a connection (`extra={...}`)."""
    return {"conn_type": "iris", "host": address, **fields}


@dataclass(frozen=True)
class TaskRun:
    """How one task instance ended."""

    task_id: str
    map_index: int
    state: str
    value: Any
    """What it returned."""


def prepare_database() -> None:
    """Makes the metadata database of the environment, once per home. Takes about two seconds."""
    from airflow.utils.db import initdb

    initdb()


def load_dags(path: Path | str) -> dict[str, DAG]:
    """The DAGs of a file or folder. Raises ValueError with what Airflow would show as import errors."""
    from airflow.dag_processing.dagbag import DagBag

    with warnings.catch_warnings():
        # Airflow reads a .airflowignore by a class that its library calls old.
        warnings.filterwarnings("ignore", "GitWildMatchPattern", DeprecationWarning)
        bag = DagBag(dag_folder=str(path))
    if bag.import_errors:
        raise ValueError("\n".join(f"{file}: {error}" for file, error in bag.import_errors.items()))
    return dict(bag.dags)


def run_dag(dag: DAG, conf: Mapping[str, Any] | None = None) -> dict[tuple[str, int], TaskRun]:
    """Runs `dag` once, task after task in this process, and returns how each task instance ended.

    Keys are task id and map index, which is -1 for tasks that are not mapped, in the order of their starts.
    """
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.utils.session import create_session

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    bag = DagBag(dag_folder="/dev/null")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    run = dag.test(run_conf=dict(conf or {}))
    started = sorted(run.get_task_instances(), key=lambda ti: (ti.start_date is None, ti.start_date))
    return {(ti.task_id, ti.map_index): _task_run(ti) for ti in started}


def _task_run(ti: Any) -> TaskRun:
    value = None
    if str(ti.state) == "success":
        value = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index)
    return TaskRun(ti.task_id, ti.map_index, str(getattr(ti.state, "value", ti.state)), value)
