"""From a job to its explanation. Pure: nothing is read or sent."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from google.protobuf import text_format

from fray_airflow.devices import CpuConfig, Device, TpuConfig
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.convert import ACCELERATOR_MIN_MILLICORES
from fray_airflow.iris.explanation import Explanation, HostShare, Topology
from fray_airflow.iris.launch import build_launch_request
from fray_airflow.iris.outlook import outlook
from fray_airflow.job import JobRequest
from fray_airflow.resources import ResourceConfig
from fray_airflow.tpu import DEFAULT_TPU_HOST_FRACTION, TPU_HOST_RESOURCES, tpu_family

HIDDEN = "<hidden>"

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKENS?|SECRETS?|PASSWORD|PASSWD|CREDENTIALS?|AUTH|KEY|APIKEY)(?:_|$)", re.IGNORECASE
)
_OPS = {
    job_pb2.CONSTRAINT_OP_EQ: "is",
    job_pb2.CONSTRAINT_OP_IN: "is one of",
}


def explain(
    job: JobRequest,
    *,
    user: str = "airflow",
    gpu_gang_level: str | None = None,
    bundle: bytes | None = None,
    files: Mapping[str, bytes] | None = None,
    unrendered: Mapping[str, str] | None = None,
    launches: tuple[str, ...] = (),
) -> Explanation:
    """What `job` asks for and what becomes of it; arguments as for `build_launch_request`, which raises as there.

    `unrendered` are arguments that hold templates, as they stand in the DAG; `launches` says what is launched beside.
    """
    request = build_launch_request(
        job,
        user=user,
        gpu_gang_level=gpu_gang_level,
        bundle=bundle,
        files=files,
        env={LAUNCH_ENV: "<a token of the task instance>"},
    )
    secrets = tuple(sorted(request.environment.secrets))
    shown = _without_secrets(request)
    gang = request.coscheduling.group_by
    return Explanation(
        job_id=request.name,
        runs=_runs(job),
        topology=_topology(job.resources.device, job.replica_count),
        replicas=job.replica_count,
        host=tuple(_host(job.resources, request.resources)),
        chips=job.resources.device.chip_count() * job.replica_count,
        peak_flops=_peak_flops(job),
        constraints=tuple(map(_constraint, request.constraints)),
        coscheduling=gang,
        environment={
            name: value
            for name, value in sorted(shown.environment.env_vars.items())
            if name not in (LAUNCH_ENV, *secrets)
        },
        secrets=secrets,
        image=request.task_image,
        code=tuple(_code(job, bundle, files or {})),
        outlook=(*launches, *outlook(job, gang)),
        request=text_format.MessageToString(_without_bytes(shown), as_utf8=True),
        unrendered=dict(unrendered or {}),
    )


def _runs(job: JobRequest) -> str:
    function = job.entrypoint.function
    if function is None:
        return shlex.join(job.entrypoint.command)
    return f"the function {getattr(function, '__qualname__', repr(function))}, pickled by value"


def _topology(device: Device, replicas: int) -> Topology:
    if isinstance(device, TpuConfig):
        vms = device.vm_count()
        # A count that fills no whole slices is refused; what it would need is shown.
        return Topology(device.kind, device.variant, -(-replicas // vms), vms, device.chip_count())
    return Topology(device.kind, device.variant, 0, 0, device.chip_count())


def _host(resources: ResourceConfig, spec: job_pb2.ResourceSpecProto) -> Iterator[HostShare]:
    """The amounts are the request's. A value that equals the default counts as the default."""
    yield HostShare("cpu", spec.cpu_millicores / 1000, _cpu_source(resources))
    yield HostShare("ram", spec.memory_bytes, _ram_source(resources))
    usual = "50g" if isinstance(resources.device, TpuConfig) else ResourceConfig().disk
    yield HostShare("disk", spec.disk_bytes, "the default" if resources.disk == usual else "as given")


def _cpu_source(resources: ResourceConfig) -> str:
    least = ACCELERATOR_MIN_MILLICORES / 1000
    if not isinstance(resources.device, CpuConfig) and resources.cpu < least:
        return f"raised from {resources.cpu:g}: a replica with an accelerator gets at least {least:g}"
    if isinstance(resources.device, TpuConfig):
        total = TPU_HOST_RESOURCES[tpu_family(resources.device.variant)].cpu
        usual = resources.cpu == max(1, int(total * DEFAULT_TPU_HOST_FRACTION))
        return (
            f"the default: {DEFAULT_TPU_HOST_FRACTION:.0%} of the VM's {total}"
            if usual
            else f"as given, of the VM's {total}"
        )
    return "the default" if resources.cpu == ResourceConfig().cpu else "as given"


def _ram_source(resources: ResourceConfig) -> str:
    if isinstance(resources.device, TpuConfig):
        total = TPU_HOST_RESOURCES[tpu_family(resources.device.variant)].ram_gb
        usual = resources.ram == f"{int(total * DEFAULT_TPU_HOST_FRACTION)}g"
        return (
            f"the default: {DEFAULT_TPU_HOST_FRACTION:.0%} of the VM's {total}"
            if usual
            else f"as given, of the VM's {total}"
        )
    return "the default" if resources.ram == ResourceConfig().ram else "as given"


def _peak_flops(job: JobRequest) -> float | None:
    device = job.resources.device
    try:
        return device.device_flops() * (device.chip_count() or 1) * job.replica_count
    except ValueError:
        return None


def _constraint(constraint: job_pb2.Constraint) -> str:
    values = constraint.values or [constraint.value]
    return f"{constraint.key} {_OPS[constraint.op]} {', '.join(value.string_value for value in values)}"


def _code(job: JobRequest, bundle: bytes | None, files: Mapping[str, bytes]) -> Iterator[str]:
    environment = job.environment
    if environment is None:
        return
    if environment.workspace:
        size = f", a bundle of {len(bundle)} bytes" if bundle is not None else ""
        yield f"the folder {environment.workspace}{size}"
    for name, path in environment.files.items():
        yield f"{path} as {name}" + (f", {len(files[name])} bytes" if name in files else "")


def _without_secrets(request: Controller.LaunchJobRequest) -> Controller.LaunchJobRequest:
    shown = Controller.LaunchJobRequest()
    shown.CopyFrom(request)
    environment = shown.environment
    for name in environment.secrets:
        environment.secrets[name] = HIDDEN
    values = [value for value in request.environment.secrets.values() if value]
    for name, value in request.environment.env_vars.items():
        if name in environment.secrets or _SECRET_NAME.search(name) or any(secret in value for secret in values):
            environment.env_vars[name] = HIDDEN
    return shown


def _without_bytes(request: Controller.LaunchJobRequest) -> Controller.LaunchJobRequest:
    if request.bundle_blob:
        request.bundle_blob = f"<{len(request.bundle_blob)} bytes>".encode()
    files = request.entrypoint.workdir_files
    for name in list(files):
        files[name] = f"<{len(files[name])} bytes>".encode()
    return request
