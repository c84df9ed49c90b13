"""Iris over the wire: protobufs, conversion of specs, clients. Importing it loads grpc; a DAG file need not."""

from fray_airflow.iris.client import AsyncIrisClient, IrisClient
from fray_airflow.iris.convert import (
    convert_constraints,
    convert_entrypoint,
    convert_environment,
    convert_resources,
    resolve_coscheduling,
)
from fray_airflow.iris.handle import AsyncJobHandle, JobHandle
from fray_airflow.iris.launch import build_launch_request
from fray_airflow.states import JobState, TaskState

__all__ = [
    "AsyncIrisClient",
    "AsyncJobHandle",
    "IrisClient",
    "JobHandle",
    "JobState",
    "TaskState",
    "build_launch_request",
    "convert_constraints",
    "convert_entrypoint",
    "convert_environment",
    "convert_resources",
    "resolve_coscheduling",
]
