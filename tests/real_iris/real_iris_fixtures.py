"""Session fixtures with a real Iris. A conftest puts this folder on `sys.path` and imports them by name."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from real_iris import RealIris, Transport, missing_packages, run_real_iris

REQUIRE = "FRAY_AIRFLOW_REQUIRE_REAL_IRIS"
"""Set to 1 where the real Iris must be there: its absence is then a failure instead of a skip."""


@pytest.fixture(scope="session")
def real_iris_connect() -> Iterator[RealIris]:
    yield from _running("connect")


@pytest.fixture(scope="session")
def real_iris_grpc() -> Iterator[RealIris]:
    yield from _running("grpc")


def _running(transport: Transport) -> Iterator[RealIris]:
    if missing := missing_packages():
        reason = f"the real Iris is not installed ({missing} missing)"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, but {REQUIRE}=1 asks for it")
        pytest.skip(f"{reason}; {REQUIRE}=1 makes this a failure")
    with run_real_iris(transport) as iris:
        yield iris
