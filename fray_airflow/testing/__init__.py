"""Tools for testing DAGs that use this provider.

>>> from fray_airflow.testing import run_operator
"""

from __future__ import annotations

from typing import Any

__all__ = ["TaskInstance", "airflow_environment", "iris_connection", "run_dag", "run_operator"]


def __getattr__(name: str) -> Any:
    """Imported on demand: `airflow_environment` has to be used before airflow is imported."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    home = "operator" if name in ("TaskInstance", "run_operator") else "airflow"
    return getattr(import_module(f"{__name__}.{home}"), name)
