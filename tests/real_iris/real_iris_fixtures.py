"""A real Iris for tests. A conftest puts this folder on `sys.path` and imports the fixtures by name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest
from real_iris import RealIris, Transport, missing_packages, run_real_iris

REQUIRE = "FRAY_AIRFLOW_REQUIRE_REAL_IRIS"
"""Set to 1 where the real Iris must be there: its absence is then a failure instead of a skip."""


@pytest.fixture(scope="session")
def real_iris_connect() -> Iterator[RealIris]:
    with real_iris_or_skip("connect") as iris:
        yield iris


@pytest.fixture(scope="session")
def real_iris_grpc() -> Iterator[RealIris]:
    with real_iris_or_skip("grpc") as iris:
        yield iris


@contextlib.contextmanager
def real_iris_or_skip(transport: Transport) -> Iterator[RealIris]:
    """For a fixture whose Iris must end before the session does."""
    if missing := missing_packages():
        reason = f"the real Iris is not installed ({missing} missing)"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, but {REQUIRE}=1 asks for it")
        pytest.skip(f"{reason}; {REQUIRE}=1 makes this a failure")
    with run_real_iris(transport) as iris:
        yield iris
