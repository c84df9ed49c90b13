"""Our translation beside the real one of marin-fray and marin-iris, where they are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

# The strategies for specs are shared.
sys.path.insert(0, str(Path(__file__).parent.parent / "iris"))

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "parity: compares with marin-fray and marin-iris, which must be installed")
