import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "real_iris"))

from real_iris_fixtures import real_iris_connect  # noqa: F401

from fray_airflow.local import Fleet, LocalIris
from fray_airflow.testing.airflow import iris_connection

FLEET = Fleet.of(cpu=2, tpu={"v5p-8": 2, "v5p-16": 1}, gpu={"H100": 1})


@pytest.fixture
def connect(monkeypatch):
    """Puts a connection where Airflow's worker and triggerer both find it: `connect(address, login="me")`."""

    def set_connection(address, conn_id="iris_default", **fields):
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(iris_connection(address, **fields)))

    return set_connection


@pytest.fixture
def scripted(connect):
    """A local Iris whose jobs end as scripted, and at once without a script, behind `iris_default`."""
    with LocalIris(FLEET, run="script") as iris:
        connect(iris.target)
        yield iris


@pytest.fixture
def running(connect):
    """A local Iris whose tasks are real processes, behind `iris_default`."""
    with LocalIris(FLEET) as iris:
        connect(iris.target)
        yield iris
