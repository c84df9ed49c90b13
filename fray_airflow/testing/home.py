"""The Airflow home of a test session: thrown away afterwards, and never the one of the machine."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fray_airflow.testing.airflow import airflow_environment

_DATABASE = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"


class ThrowAwayHome:
    """Set up before airflow is imported, since Airflow reads its configuration then; the database comes with its use.

    A home that `airflow_environment` made, and any environment of a process that has imported airflow, is kept.
    """

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}
        self._folder: Path | None = None
        self._has_database = False

    def enter(self, *, shared: bool = False) -> None:
        """`shared`: the environment comes from another process that uses its home at the same time."""
        if "airflow" in sys.modules or (is_throw_away(os.environ) and not shared):
            return
        self._folder = Path(tempfile.mkdtemp(prefix="fray-airflow-test-"))
        environment = airflow_environment(self._folder)
        # Airflow would make one of 22 bytes, of which PyJWT warns.
        environment["AIRFLOW__API_AUTH__JWT_SECRET"] = secrets.token_hex(32)
        self._before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)

    def leave(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def prepare_database(self) -> None:
        """Once per session. Raises RuntimeError where it would be one that is not for tests."""
        if self._has_database:
            return
        from airflow import settings

        if not is_throw_away(os.environ) or os.environ[_DATABASE] != settings.SQL_ALCHEMY_CONN:
            # Without the password that it may hold.
            where = str(settings.SQL_ALCHEMY_CONN).rpartition("@")[2]
            raise RuntimeError(
                f"Airflow uses the database {where}, and run_dag writes test runs into its database. airflow was "
                'imported before its home was set: put `pytest_plugins = ["fray_airflow.testing"]` into the topmost '
                "conftest.py, and import nothing of airflow there and in other plugins."
            )
        from fray_airflow.testing.airflow import prepare_database

        prepare_database()
        self._has_database = True


def is_throw_away(environment: Mapping[str, str]) -> bool:
    """Whether it is as `airflow_environment` makes it: everything in one folder, the database too."""
    home = environment.get("AIRFLOW_HOME", "")
    return bool(home) and environment.get(_DATABASE) == airflow_environment(Path(home))[_DATABASE]
