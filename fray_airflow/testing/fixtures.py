"""The fixtures of `pytest_plugins = ["fray_airflow.testing"]`. Loading them imports neither airflow nor grpc.

PYTEST_DONT_REWRITE: there are no asserts here, and pytest would warn where this was imported before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from fray_airflow.testing.airflow import TASK_ID_ENV
from fray_airflow.testing.airflow import iris_connection as connection_fields
from fray_airflow.testing.clock import HastyClock
from fray_airflow.testing.home import ThrowAwayHome

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from fray_airflow.iris import IrisClient
    from fray_airflow.local import Fleet, LocalIris
    from fray_airflow.testing.airflow import TaskRun
    from fray_airflow.testing.operator import OperatorRun

_HOME = pytest.StashKey[ThrowAwayHome]()
_IRIS = pytest.StashKey["LocalIris"]()


def pytest_configure(config: pytest.Config) -> None:
    # A worker of pytest-xdist inherits the home of the process that started it.
    config.stash.setdefault(_HOME, ThrowAwayHome()).enter(shared=hasattr(config, "workerinput"))


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_HOME].leave()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that is fine otherwise fails when not all went as scripted. One that failed has its own story."""
    outcome = yield
    iris = item.stash.get(_IRIS, None)
    if iris is not None and (complaints := iris.complaints()):
        pytest.fail("\n\n".join(complaints), pytrace=False)
    return outcome


@dataclass(frozen=True)
class IrisConnection:
    """The connection of the test. `address` is the local Iris, as `grpc://host:port`."""

    conn_id: str
    address: str
    _setenv: Callable[[str, str], None]

    def set(self, conn_id: str = "", **fields: Any) -> None:
        """Defines a connection to the same Iris, or gives this one other fields: login, password, extra={...}."""
        name = f"AIRFLOW_CONN_{(conn_id or self.conn_id).upper()}"
        self._setenv(name, json.dumps(connection_fields(self.address, **fields)))

    def client(self) -> IrisClient:
        """To look at jobs as anybody could; to be closed, or used in a `with` statement."""
        from fray_airflow.iris import IrisClient

        return IrisClient(self.address)


@pytest.fixture
def iris_fleet() -> Fleet:
    """The machines of `local_iris`. Define a fixture of this name to have others: `Fleet.of(tpu={"v5p-64": 1})`."""
    from fray_airflow.local import Fleet

    return Fleet.default()


@pytest.fixture
def _clock(monkeypatch: pytest.MonkeyPatch) -> HastyClock:
    clock = HastyClock()
    clock.install(monkeypatch)
    return clock


@pytest.fixture
def local_iris(request: pytest.FixtureRequest, iris_fleet: Fleet, _clock: HastyClock) -> Iterator[LocalIris]:
    """An Iris whose jobs end as `script` says, and otherwise succeed at once. Nothing runs.

    Tasks of this process do not wait for it: time passes as soon as they would. A test fails at its end for
    `complaints()`.
    """
    from fray_airflow.local import LocalIris, Timing

    # What goes on while a call is answered takes real time.
    timing = Timing(drain_seconds=0, kill_grace_seconds=0)
    with LocalIris(
        iris_fleet,
        run="script",
        timing=timing,
        clock=_clock.time,
        calling_task=lambda: os.environ.get(TASK_ID_ENV, ""),
    ) as iris:
        _clock.tick = iris.cluster.tick
        request.node.stash[_IRIS] = iris
        yield iris


@pytest.fixture(name="iris_connection")
def _iris_connection(monkeypatch: pytest.MonkeyPatch, local_iris: LocalIris) -> IrisConnection:
    """The Airflow connection `iris_default` leads to `local_iris` during the test."""
    connection = IrisConnection("iris_default", local_iris.target, monkeypatch.setenv)
    connection.set()
    return connection


@pytest.fixture(name="run_operator")
def _run_operator(monkeypatch: pytest.MonkeyPatch, iris_connection: IrisConnection) -> Callable[..., OperatorRun]:
    """`fray_airflow.testing.run_operator` on `local_iris`: no database. A deferrable operator defers at once."""
    from fray_airflow.operators import IrisSubmitJobOperator
    from fray_airflow.testing.operator import run_operator

    monkeypatch.setattr(IrisSubmitJobOperator, "defer_after_seconds", 0)
    return run_operator


@pytest.fixture(name="run_dag")
def _run_dag(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, iris_connection: IrisConnection, _clock: HastyClock
) -> Callable[..., dict[tuple[str, int], TaskRun]]:
    """`fray_airflow.testing.run_dag` on `local_iris`, in a database that the first test makes and the session drops."""
    from fray_airflow.operators.planning import deadline_of as real_deadline
    from fray_airflow.testing.airflow import run_dag

    request.config.stash[_HOME].prepare_database()
    # Airflow tells when a task started, and knows nothing of what tests have waited by then.
    ahead_at: dict[Any, float] = {}

    def deadline_of(context: Any, execution_timeout: timedelta | None) -> datetime | None:
        deadline = real_deadline(context, execution_timeout)
        ahead = ahead_at.setdefault(context["ti"].start_date, _clock.ahead)
        return deadline + timedelta(seconds=ahead) if deadline is not None else None

    monkeypatch.setattr("fray_airflow.operators.planning.deadline_of", deadline_of)

    def run(dag: DAG, conf: Mapping[str, Any] | None = None) -> dict[tuple[str, int], TaskRun]:
        before = dict(os.environ)
        try:
            return run_dag(dag, conf)
        finally:
            # Airflow leaves its tasks' variables behind, and the next call would not be theirs.
            for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_") and name not in before]:
                del os.environ[name]

    return run
