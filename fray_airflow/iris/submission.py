"""A job on its way to the controller: its request with its code and the proof that it is ours."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path

from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.launch import ERROR, build_launch_request, read_code
from fray_airflow.job import JobRequest
from fray_airflow.results import RESULT_URI_ENV, uri_for_job
from fray_airflow.status import JobStatus


def prepare(
    job: JobRequest,
    *,
    user: str,
    base: Path | None = None,
    token: str | None = None,
    marks: Mapping[str, str] | None = None,
    gpu_gang_level: str | None = None,
    existing_job_policy: job_pb2.ExistingJobPolicy = ERROR,
) -> Controller.LaunchJobRequest:
    """The request of `job`, its code read from disk (relative to `base`, default the working folder).

    It carries `token` in LAUNCH_ENV, a random one unless given: when a reply is lost, the name is taken afterwards, and
    only the echo of the token tells whether by us. `marks` are variables beside it.
    """
    bundle, files = read_code(job.environment, base or Path.cwd())
    asked = job.entrypoint.result
    place = {RESULT_URI_ENV: uri_for_job(asked.uri)} if asked is not None and asked.uri else {}
    return build_launch_request(
        job,
        user=user,
        bundle=bundle,
        files=files,
        gpu_gang_level=gpu_gang_level,
        existing_job_policy=existing_job_policy,
        # Short, because Iris echoes a value that looks like a key, of 24 characters or more, as "[REDACTED]".
        env={LAUNCH_ENV: token or secrets.token_hex(8), **place, **(marks or {})},
    )


def proves(status: JobStatus, request: Controller.LaunchJobRequest) -> bool:
    """Whether the job that has the name came from this very request."""
    echo = status.request_env.get(LAUNCH_ENV)
    return bool(echo) and echo == request.environment.env_vars[LAUNCH_ENV]
