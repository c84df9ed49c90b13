"""The checks of LaunchJob, in Iris's order, and the record they lead to."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import date, timedelta

from fray_airflow.iris._gen import controller_pb2, job_pb2

from . import feasibility
from .access import Caller
from .constraints import implied_by, normalize
from .names import JobName, parse_job_name
from .redaction import HIDDEN, redacted
from .table import Job, Table, Task
from .transitions import reject
from .wire_error import WireError
from .workers import Workers

BUILD_DATE = date(2026, 10, 24)
"""The build of Iris that is imitated."""

OLDEST_CLIENT = BUILD_DATE - timedelta(days=14)
MAX_BUNDLE_BYTES = 25 * 1024 * 1024
MAX_REPLICAS = 10_000
MAX_ACTIVE_TASKS = 16_000
INLINE_FILE_BYTES = 10 * 1024

_SECRET_NAME = re.compile(r"[A-Za-z0-9_.-]+")

Request = controller_pb2.Controller.LaunchJobRequest


@dataclass(frozen=True)
class Admitted:
    """A request that passed every check which comes before the existing job is looked at."""

    name: JobName
    request: Request


def admit(given: Request, caller: Caller, table: Table, workers: Workers) -> Admitted:
    """Raises WireError; ValueError where Iris answers `internal`."""
    request = Request()
    request.CopyFrom(given)
    _check_form(request)
    name = parse_job_name(request.name)
    if request.HasField("federation"):
        raise WireError("permission_denied", "federation handoff requires a federation peer")
    if not name.parent_id:
        _check_client_date(request.client_revision_date)
    name = caller.owner_of(name)
    request.name = name.job_id
    parent = table.get(name.parent_id) if name.parent_id else None
    _resolve_band(request, name, parent, caller)
    _check_container(request, caller)
    _check_active_tasks(request, name, table)
    _check_parent(name, parent)
    _complete_constraints(request)
    feasibility.check(request, workers.groups)
    return Admitted(name, request)


def store(admitted: Admitted, blobs: dict[str, bytes]) -> dict[str, bytes]:
    """Take bundle and files out of the request; returns the files. Comes after the existing job was dealt with."""
    request = admitted.request
    if request.bundle_blob:
        size = len(request.bundle_blob)
        if size > MAX_BUNDLE_BYTES:
            raise WireError("invalid_argument", f"Bundle size {size / 1024**2:.1f}MB exceeds maximum 25MB")
        request.bundle_id = _keep(blobs, request.bundle_blob)
    request.ClearField("bundle_blob")
    files = dict(request.entrypoint.workdir_files)
    for name, content in files.items():
        if len(content) > INLINE_FILE_BYTES:
            request.entrypoint.workdir_file_refs[name] = _keep(blobs, content)
    request.entrypoint.ClearField("workdir_files")
    return {name: content for name, content in files.items() if len(content) <= INLINE_FILE_BYTES}


def record(admitted: Admitted, files: dict[str, bytes], submitted_ms: int) -> Job:
    """The new job with its tasks, or already failed without any."""
    request, job_id = admitted.request, admitted.name.job_id
    job = Job(job_id, request, admitted.name.user, feasibility.need_of(request.resources), submitted_ms, files)
    job.env = dict(request.environment.env_vars)
    _redact(request)
    request.name = request.name.lower()
    fault = _late_fault(request)
    if fault:
        reject(job, f"Job {job_id} has {fault}" if fault.startswith("invalid") else fault, submitted_ms)
    else:
        job.tasks = [Task(job_id, index) for index in range(request.replicas)]
    return job


def _check_form(request: Request) -> None:
    for name in request.environment.secrets:
        if not _SECRET_NAME.fullmatch(name):
            raise WireError("invalid_argument", f"Invalid secret name: {name!r}")
    if not request.name:
        raise WireError("invalid_argument", "Job name is required")
    if request.HasField("coscheduling") and not request.coscheduling.group_by:
        message = "coscheduling requires a non-empty group_by (the topology level to gang on)"
        raise WireError("invalid_argument", message)


def _check_client_date(text: str) -> None:
    if not text:
        return
    try:
        client = date.fromisoformat(text)
    except ValueError:
        raise WireError("invalid_argument", f"client_revision_date {text!r} is not an ISO date") from None
    if client < OLDEST_CLIENT:
        message = f"marin-iris client is too old: built {client}, the controller accepts {OLDEST_CLIENT} or later"
        raise WireError("failed_precondition", message)


def _resolve_band(request: Request, name: JobName, parent: Job | None, caller: Caller) -> None:
    if request.priority_band not in job_pb2.PriorityBand.values():
        message = f"Unknown priority_band {request.priority_band}; expected one of [0, 1, 2, 3, 4]"
        raise WireError("invalid_argument", message)
    if request.priority_band == job_pb2.PRIORITY_BAND_INHERIT:
        request.priority_band = parent.request.priority_band if parent else job_pb2.PRIORITY_BAND_INTERACTIVE
    caller.check_band(request.priority_band, name.user)


def _check_container(request: Request, caller: Caller) -> None:
    profile, egress = request.container_profile, request.egress_policy
    sandbox = profile == job_pb2.CONTAINER_PROFILE_SANDBOX
    if profile not in job_pb2.ContainerProfile.values():
        raise WireError("invalid_argument", f"Unknown container profile {profile}; upgrade the controller")
    caller.check_profile(profile)
    accelerated = request.resources.device.WhichOneof("device") in ("tpu", "gpu")
    if accelerated and (sandbox or profile == job_pb2.CONTAINER_PROFILE_GVISOR):
        raise WireError("invalid_argument", "GVISOR and SANDBOX profiles do not support accelerators")
    if sandbox and (request.bundle_blob or request.bundle_id):
        raise WireError("invalid_argument", "SANDBOX profile does not support a bundle")
    if egress not in job_pb2.EgressPolicy.values():
        raise WireError("invalid_argument", f"Unknown egress policy {egress}")
    if sandbox and egress == job_pb2.EGRESS_POLICY_CLUSTER:
        raise WireError("invalid_argument", "SANDBOX profile does not support egress policy CLUSTER")
    if egress == job_pb2.EGRESS_POLICY_UNSPECIFIED:
        request.egress_policy = job_pb2.EGRESS_POLICY_INTERNET if sandbox else job_pb2.EGRESS_POLICY_CLUSTER


def _check_active_tasks(request: Request, name: JobName, table: Table) -> None:
    active = table.active_tasks_of(name.user)
    # A count that is out of bounds creates no tasks, so it does not weigh here.
    new = request.replicas if 1 <= request.replicas <= MAX_REPLICAS else 0
    if active + new > MAX_ACTIVE_TASKS:
        message = (
            f"Budget identity {name.user} has {active} active task(s); submitting {new} more would exceed "
            f"the limit of {MAX_ACTIVE_TASKS}"
        )
        raise WireError("resource_exhausted", message)


def _check_parent(name: JobName, parent: Job | None) -> None:
    if not name.parent_id:
        return
    if parent is None:
        message = f"Cannot submit job: parent job {name.parent_id} is absent from the database"
        raise WireError("failed_precondition", message)
    if parent.is_terminal:
        state = job_pb2.JobState.Name(parent.state)
        message = f"Cannot submit job: parent job {name.parent_id} has terminated (state={state})"
        raise WireError("failed_precondition", message)


def _complete_constraints(request: Request) -> None:
    for constraint in request.constraints:
        normalize(constraint)
    own_keys = {constraint.key for constraint in request.constraints}
    request.constraints.extend(implied_by(request.resources.device, own_keys))
    if not request.resources.HasField("device"):
        request.resources.device.SetInParent()


def _late_fault(request: Request) -> str:
    """What Iris notices only after it has accepted the job."""
    if request.replicas < 1:
        return f"invalid replicas={request.replicas}; must be >= 1"
    if request.replicas > MAX_REPLICAS:
        return f"replicas={request.replicas} exceeds max {MAX_REPLICAS}"
    return ""


def _redact(request: Request) -> None:
    env, secrets = request.environment.env_vars, request.environment.secrets
    env.update(redacted(env))
    secrets.update(dict.fromkeys(secrets, HIDDEN))


def _keep(blobs: dict[str, bytes], content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return digest
