"""Tools for testing DAGs that use this provider, and a pytest plugin with fixtures.

>>> from fray_airflow.testing import run_operator

In the topmost conftest.py: `pytest_plugins = ["fray_airflow.testing"]`.
PYTEST_DONT_REWRITE: there are no asserts here, and pytest would warn where this was imported before.
"""

from __future__ import annotations

from typing import Any

__all__ = ["TaskInstance", "airflow_environment", "iris_connection", "load_dags", "run_dag", "run_operator"]

pytest_plugins = ["fray_airflow.testing.fixtures"]
"""Here pytest looks for them when it takes this module as a plugin: the fixtures have the names of the functions."""


def __getattr__(name: str) -> Any:
    """Imported on demand: `airflow_environment` has to be used before airflow is imported."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    home = "operator" if name in ("TaskInstance", "run_operator") else "airflow"
    return getattr(import_module(f"{__name__}.{home}"), name)
