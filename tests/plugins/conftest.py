import json

import pytest

from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.testing.airflow import iris_connection


@pytest.fixture
def iris(monkeypatch):
    """A local Iris behind `iris_default`, whose jobs run for ever."""
    with LocalIris(Fleet.of(cpu=8, tpu={"v5p-8": 2}), run="script") as iris:
        iris.script("*", Outcome.hang())
        monkeypatch.setenv("AIRFLOW_CONN_IRIS_DEFAULT", json.dumps(iris_connection(iris.target)))
        yield iris
