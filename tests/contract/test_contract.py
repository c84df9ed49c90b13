"""Local and real Iris, over gRPC and Connect, behave alike. The behaviours are in the modules `cases_*`.

Where the local Iris is to differ, `INTENDED_DIFFERENCES` has the reason.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from casebook import CASES, INTENDED_DIFFERENCES

for module in sorted(Path(__file__).parent.glob("cases_*.py")):
    importlib.import_module(module.stem)


@pytest.mark.parametrize("name", CASES)
def test_contract(
    outcomes: dict[str, Future[str]], target: str, name: str, record_property: Callable[[str, object], None]
) -> None:
    """Every case holds on every target, but for the intended differences, which have to be there."""
    if target.startswith("local-") and name in INTENDED_DIFFERENCES:
        with pytest.raises(AssertionError):
            outcomes[name].result()
        pytest.xfail(INTENDED_DIFFERENCES[name])
    record_property("first", outcomes[name].result())


def test_intended_differences_are_about_cases() -> None:
    """A case that is renamed takes its entry along."""
    assert INTENDED_DIFFERENCES.keys() <= CASES.keys()
