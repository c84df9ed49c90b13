import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "real_iris"))

from real_iris_fixtures import real_iris_connect  # noqa: F401

from fray_airflow.cli import main
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris

ROOT = Path(__file__).parents[2]


@dataclass
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Runs the entry point in this process: `command("jobs", "--target", address)`."""

    def run(*words: str) -> Ended:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as error:
            code = int(str(error.code))
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return run


@pytest.fixture(scope="module")
def iris():
    """A local Iris with two v5p-16 slices, whose jobs end at once unless scripted."""
    with LocalIris(Fleet.of(cpu=2, tpu={"v5p-16": 2}), run="script") as iris:
        yield iris


@pytest.fixture(scope="module")
def client(iris):
    with IrisClient(iris.target) as client:
        yield client
