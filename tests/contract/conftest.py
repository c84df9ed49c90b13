"""The four targets of the contract, and the table at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "real_iris")]

CASE_MODULES = sorted(path.stem for path in HERE.glob("cases_*.py"))
pytest.register_assert_rewrite("iris_under_test", *CASE_MODULES)

from casebook import CASES, INTENDED_DIFFERENCES, running  # noqa: E402
from real_iris_fixtures import real_iris_or_skip  # noqa: E402
from table import TARGETS, print_table  # noqa: E402

from fray_airflow.iris import IrisClient  # noqa: E402
from fray_airflow.local import Fleet, LocalIris  # noqa: E402

FLEET = {"cpu": 2, "tpu": {"v5p-8": 3, "v4-16": 2, "v5p-16": 3, "v6e-16": 1}, "gpu": {"H100": 1}}
"""The machines of `real_iris/cluster.yaml`."""


@pytest.fixture(scope="session", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def client(target: str) -> Iterator[IrisClient]:
    kind, _, transport = target.partition("-")
    if kind == "real":
        with (
            real_iris_or_skip(transport) as real,
            IrisClient(real.target, log_target=real.log_target) as client,
        ):
            yield client
    else:
        with (
            LocalIris(Fleet.of(**FLEET)) as local,
            IrisClient(local.target if transport == "grpc" else local.url) as client,
        ):
            yield client


@pytest.fixture(scope="session")
def outcomes(target: str, client: IrisClient, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[str]]]:
    """The results of all selected cases on one target, which run side by side from the first test on."""
    client.whoami()
    selected = [
        item.callspec.params for item in request.session.items if "outcomes" in getattr(item, "fixturenames", ())
    ]
    names = [params["name"] for params in selected if params["target"] == target]
    with running(client, names, starves=target.startswith("real-")) as futures:
        yield futures


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    reports = [report for name in ("passed", "failed", "error", "skipped", "xfailed") for report in stats.get(name, [])]
    contract = [report for report in reports if "test_contract[" in report.nodeid]
    if contract:
        # In a run of the whole test suite the table would bury everything else.
        all_rows = any(HERE.name in word for word in config.args)
        print_table(CASES, INTENDED_DIFFERENCES, contract, terminalreporter, all_rows=all_rows)
