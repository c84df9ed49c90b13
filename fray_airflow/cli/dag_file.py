"""A task of a DAG file, which is imported as Airflow does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fray_airflow.cli.exits import CommandError

if TYPE_CHECKING:
    from airflow.sdk import DAG

_LEVEL = "AIRFLOW__LOGGING__LOGGING_LEVEL"


def read_task(file: Path, task_id: str, dag_id: str | None) -> Any:
    """Raises CommandError for a file that cannot be imported, and for a DAG or task that is not in it."""
    if not file.is_file():
        raise CommandError(f"{file} is not a file; give a DAG file")
    with _quiet_airflow():
        dags = _dags(file)
    if not dags:
        raise CommandError(f"{file} holds no DAG")
    if dag_id is not None and dag_id not in dags:
        raise CommandError(f"{file} holds no DAG {dag_id!r}; choose from {', '.join(sorted(dags))}")
    chosen = [dags[dag_id]] if dag_id is not None else list(dags.values())
    holders = [dag for dag in chosen if task_id in dag.task_dict]
    if len(holders) > 1:
        names = ", ".join(sorted(dag.dag_id for dag in holders))
        raise CommandError(f"{task_id!r} is in more than one DAG; choose one with --dag: {names}")
    if not holders:
        tasks = sorted({name for dag in chosen for name in dag.task_dict})
        raise CommandError(f"{file} holds no task {task_id!r}; choose from {', '.join(tasks)}")
    return holders[0].get_task(task_id)


@contextmanager
def _quiet_airflow() -> Iterator[None]:
    """Airflow logs to stdout, where a command's own output goes, and DAG files may print."""
    given = _LEVEL in os.environ
    # At INFO it tells which files it reads.
    os.environ.setdefault(_LEVEL, "WARNING")
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if not given:
            del os.environ[_LEVEL]


def _dags(file: Path) -> dict[str, DAG]:
    from fray_airflow.testing.airflow import load_dags

    try:
        return load_dags(file)
    except ValueError as error:
        raise CommandError(f"{file} cannot be imported:\n{error}") from None
