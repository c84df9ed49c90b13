import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parents[1] / "chaos"), str(Path(__file__).parent)]

from ui_browser import browser, page  # noqa: F401

from fray_airflow.local import Fleet, LocalIris, Outcome

FLEET = Fleet.of(cpu=4, tpu={"v5p-8192": 2, "v5p-16": 3, "v5p-8": 4}, gpu={"H100": 2})


def write_script(iris):
    iris.script("training-pretrain-*", Outcome.hang())
    iris.script("training-train-*", Outcome.hang(["step 1"]))
    iris.script("training-sweep-*", Outcome.stay_pending())
    iris.script("training-evaluate-*", Outcome.fail(3, stderr=["<img src=x onerror=alert(1)>"], seconds=1))


@pytest.fixture(scope="session")
def iris():
    """One job of each kind, told apart by the tasks' names."""
    with LocalIris(FLEET, run="script") as iris:
        write_script(iris)
        yield iris


@pytest.fixture(scope="session")
def airflow(iris):
    from ui_airflow import UiAirflow

    home = Path(tempfile.mkdtemp(prefix="fray-airflow-ui-"))
    airflow = UiAirflow(home / "airflow", iris.target, "https://iris.example.com")
    try:
        airflow.start()
        airflow.run("training")
        airflow.run("secret")
        yield airflow
    finally:
        airflow.stop()
        if not os.environ.get("FRAY_AIRFLOW_KEEP"):
            shutil.rmtree(home, ignore_errors=True)
