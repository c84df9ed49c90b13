"""From an Airflow connection to a client."""

from fray_airflow.hooks.iris import IrisHook

__all__ = ["IrisHook"]
