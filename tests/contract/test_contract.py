"""Local and real Iris, over gRPC and Connect, behave alike. The behaviours are in the modules `cases_*`."""

from __future__ import annotations

import importlib
from concurrent.futures import Future
from pathlib import Path

import pytest
from casebook import CASES

for module in sorted(Path(__file__).parent.glob("cases_*.py")):
    importlib.import_module(module.stem)


@pytest.mark.parametrize("name", CASES)
def test_contract(outcomes: dict[str, Future[None]], name: str) -> None:
    """Every case holds on every target."""
    outcomes[name].result()
