"""The launch request: a JobRequest with its user, its code and the rule for a name that is taken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fray_airflow.devices import GpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.bundle import make_bundle
from fray_airflow.iris.convert import (
    convert_constraints,
    convert_entrypoint,
    convert_environment,
    convert_resources,
    multiprocess_argv,
    resolve_coscheduling,
)
from fray_airflow.job import EnvironmentConfig, JobRequest
from fray_airflow.states import PriorityBand

ERROR = job_pb2.EXISTING_JOB_POLICY_ERROR
"""Refuse a name that any job has, finished or not. The others run a finished job again."""
RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE
"""Cancel what has the name, wait until it is gone, and start anew."""

_Request = Controller.LaunchJobRequest


def build_launch_request(
    job: JobRequest,
    *,
    user: str = "airflow",
    gpu_gang_level: str | None = None,
    bundle: bytes | None = None,
    files: Mapping[str, bytes] | None = None,
    existing_job_policy: job_pb2.ExistingJobPolicy = ERROR,
    env: Mapping[str, str] | None = None,
) -> Controller.LaunchJobRequest:
    """The request for `/user/name`. Pure: `bundle` and `files` are what `read_code` read, `env` wins over all else.

    Raises InvalidSpecError for a user with "/" and for a gang that no GPU level fits.
    """
    if not user.strip() or "/" in user:
        raise InvalidSpecError("LaunchJobRequest", [f'user={user!r} is not a user name; it may not hold "/"'])
    resources, device = job.resources, job.resources.device
    environment = convert_environment(job.environment, device)
    environment.env_vars.update(env or {})
    entrypoint = convert_entrypoint(job.entrypoint, job.environment)
    entrypoint.workdir_files.update(files or {})
    gpus = device.count if isinstance(device, GpuConfig) else 0
    entrypoint.run_command.argv[:] = multiprocess_argv(list(entrypoint.run_command.argv), job.processes_per_task, gpus)
    request = _Request(
        name=f"/{user}/{job.name}",
        entrypoint=entrypoint,
        resources=convert_resources(resources),
        environment=environment,
        constraints=convert_constraints(resources),
        coscheduling=resolve_coscheduling(resources, job.replica_count, gpu_gang_level=gpu_gang_level),
        # The server stores a job with no replicas and fails it at once: always send the count.
        replicas=job.replica_count,
        existing_job_policy=existing_job_policy,
    )
    _set_budgets(request, job)
    _set_container(request, job)
    if bundle is not None:
        request.bundle_blob = bundle
    return request


def read_code(environment: EnvironmentConfig | None, base: Path) -> tuple[bytes | None, dict[str, bytes]]:
    """The workspace's bundle and the single files, read from disk; relative paths start at `base`."""
    if environment is None:
        return None, {}
    bundle = make_bundle(base / environment.workspace) if environment.workspace else None
    files = {}
    for name, path in environment.files.items():
        try:
            files[name] = (base / path).read_bytes()
        except OSError as error:
            raise InvalidSpecError("EnvironmentConfig", [f"files: {name!r} cannot be read ({error})"]) from error
    return bundle, files


def _set_budgets(request: _Request, job: JobRequest) -> None:
    request.max_retries_failure = job.max_retries_failure
    request.max_retries_preemption = job.max_retries_preemption
    request.max_task_failures = job.max_task_failures
    if job.timeout_seconds is not None:
        # 0 would be no timeout.
        request.timeout.milliseconds = max(1, round(job.timeout_seconds * 1000))
    if job.priority_band is not PriorityBand.INHERIT:
        request.MergeFrom(_Request(priority_band=f"PRIORITY_BAND_{job.priority_band.name}"))
    request.ports.extend(job.ports)


def _set_container(request: _Request, job: JobRequest) -> None:
    image = job.resources.image or (job.environment.docker_image if job.environment else None)
    if image:
        request.task_image = image
    if job.resources.container_profile:
        request.MergeFrom(_Request(container_profile=f"CONTAINER_PROFILE_{job.resources.container_profile.upper()}"))
