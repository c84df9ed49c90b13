"""An Airflow provider that runs training jobs on Iris. What is importable from here needs the standard library only."""

from fray_airflow.devices import CpuConfig, GpuConfig, TpuConfig
from fray_airflow.job import Entrypoint, EnvironmentConfig, JobRequest, create_environment
from fray_airflow.resources import ANY_REGION, ResourceConfig

__all__ = [
    "ANY_REGION",
    "CpuConfig",
    "Entrypoint",
    "EnvironmentConfig",
    "GpuConfig",
    "JobRequest",
    "ResourceConfig",
    "TpuConfig",
    "create_environment",
]
