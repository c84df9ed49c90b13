"""From the spec to Iris protobufs, one function per message. All pure.

The figures are Fray's (marin-fray 0.2.227.dev40316220070), so that a job asks for the same from here and from there.
"""

from __future__ import annotations

import math
import shlex

from fray_airflow.devices import CpuConfig, Device, GpuConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris.callables import callable_argv, callable_files, push_files
from fray_airflow.iris.rendezvous import meet_first
from fray_airflow.job import Entrypoint, EnvironmentConfig
from fray_airflow.resources import ANY_REGION, ResourceConfig
from fray_airflow.units import parse_bytes

ACCELERATOR_MIN_MILLICORES = 4000
"""A replica with an accelerator gets at least four cores, whatever it asks for."""

_NVL72_PREFIXES = ("gb200", "gb300")
_NODES_PER_RACK = 16
_FEWEST_NODES_PER_RACK = 10
_GPUS_PER_NVL72_NODE = 4


def convert_resources(resources: ResourceConfig) -> job_pb2.ResourceSpecProto:
    """What one replica asks for: millicores (truncated), bytes, device."""
    millicores = int(resources.cpu * 1000)
    spec = job_pb2.ResourceSpecProto(
        cpu_millicores=millicores,
        memory_bytes=parse_bytes(resources.ram),
        disk_bytes=parse_bytes(resources.disk),
    )
    device = resources.device
    if isinstance(device, CpuConfig):
        return spec
    spec.cpu_millicores = max(millicores, ACCELERATOR_MIN_MILLICORES)
    if isinstance(device, GpuConfig):
        spec.device.gpu.variant = device.variant
        spec.device.gpu.count = device.count
    else:
        spec.device.tpu.variant = device.variant
        spec.device.tpu.count = device.chip_count()
        if device.topology is not None:
            spec.device.tpu.topology = device.topology
    return spec


def convert_constraints(resources: ResourceConfig) -> list[job_pb2.Constraint]:
    """Where the job may run. `preemptible=True` adds nothing; ANY_REGION never goes on the wire."""
    constraints = []
    if not resources.preemptible:
        constraints.append(_equals("preemptible", "false"))
    if resources.regions and ANY_REGION not in resources.regions:
        constraints.append(_one_of("region", resources.regions))
    if resources.zone:
        constraints.append(_equals("zone", resources.zone))
    if resources.target_cluster:
        constraints.append(_equals("cluster", resources.target_cluster))
    if resources.device_alternatives:
        variants = (resources.device.variant, *resources.device_alternatives)
        constraints.append(_among("device-variant", variants))
    return constraints


def resolve_coscheduling(
    resources: ResourceConfig, replicas: int, *, gpu_gang_level: str | None = None
) -> job_pb2.CoschedulingConfig | None:
    """The worker attribute that all replicas must share, None where each replica stands alone.

    TPU types with several VMs share a slice (`tpu-name`). GPU gangs share a level of the network, which is a property
    of the cluster: `gpu_gang_level` names it, else Fray's choice for the GPU model counts.
    """
    if replicas <= 1:
        return None
    device = resources.device
    if isinstance(device, TpuConfig):
        return job_pb2.CoschedulingConfig(group_by="tpu-name") if device.vm_count() > 1 else None
    if isinstance(device, GpuConfig):
        return job_pb2.CoschedulingConfig(group_by=gpu_gang_level or _default_gpu_level(resources, device, replicas))
    return None


def convert_environment(environment: EnvironmentConfig | None, device: Device) -> job_pb2.EnvironmentConfig:
    """The replica's variables, secrets and set-up scripts. The device's defaults fill in what the author left out."""
    environment = environment or EnvironmentConfig()
    return job_pb2.EnvironmentConfig(
        env_vars={**device.default_env_vars(), **environment.env_vars},
        secrets=environment.secrets,
        setup_scripts=setup_scripts(environment),
    )


def convert_entrypoint(
    entrypoint: Entrypoint, environment: EnvironmentConfig | None = None
) -> job_pb2.RuntimeEntrypoint:
    """The command of a replica, what is run before it, and the files of a function, a pushed result, a rendezvous."""
    runtime = job_pb2.RuntimeEntrypoint(setup_commands=setup_scripts(environment or EnvironmentConfig()))
    if entrypoint.function is None:
        runtime.run_command.argv.extend(entrypoint.command)
        if entrypoint.result is not None:
            runtime.workdir_files.update(push_files(entrypoint.result))
    else:
        runtime.run_command.argv.extend(callable_argv())
        runtime.workdir_files.update(callable_files(entrypoint))
    if entrypoint.rendezvous is not None:
        meet_first(runtime, entrypoint.rendezvous)
    return runtime


def setup_scripts(environment: EnvironmentConfig) -> list[str]:
    """What prepares the replica's environment: the author's scripts, else `uv sync` of a shipped workspace."""
    if environment.setup_scripts is not None:
        return [script for script in environment.setup_scripts if script.strip()]
    if not environment.workspace and not environment.pip_packages:
        return []
    extras = " ".join(f"--extra {shlex.quote(extra)}" for extra in environment.extras)
    lines = [
        "set -e",
        'cd "$IRIS_WORKDIR"',
        # A workspace need not be a project: loose scripts have nothing to sync.
        f"if [ -f pyproject.toml ]; then uv sync --no-dev {extras}".rstrip() + "; fi",
    ]
    if environment.pip_packages:
        lines.append("uv pip install " + " ".join(shlex.quote(package) for package in environment.pip_packages))
    return ["\n".join(lines) + "\n"]


def multiprocess_argv(argv: list[str], processes: int, gpu_count: int) -> list[str]:
    """`argv` started `processes` times per replica by Iris's launcher, each process with its share of the GPUs."""
    if processes <= 1:
        return argv
    share = str(gpu_count // processes)
    launcher = ["python", "-m", "iris.jax.multigpu_main", "--nproc", str(processes), "--devices-per-proc", share, "--"]
    return launcher + argv


def _default_gpu_level(resources: ResourceConfig, device: GpuConfig, replicas: int) -> str:
    variants = (device.variant, *(resources.device_alternatives or ()))
    levels = {variant: _gpu_level(variant, device.count, replicas) for variant in variants}
    if len(set(levels.values())) > 1:
        shown = ", ".join(f"{variant} on {level}" for variant, level in levels.items())
        raise InvalidSpecError(
            "ResourceConfig",
            [f"device_alternatives would be coscheduled on different levels ({shown}); use one family"],
        )
    return levels[device.variant]


def _gpu_level(variant: str, gpu_count: int, replicas: int) -> str:
    if not variant.lower().startswith(_NVL72_PREFIXES):
        return "leafgroup"
    if replicas <= _NODES_PER_RACK:
        return "nvlink.domain"
    racks = math.ceil(replicas / _NODES_PER_RACK)
    faults = []
    if gpu_count != _GPUS_PER_NVL72_NODE:
        faults.append(
            f"count={gpu_count}: a gang of {replicas} {variant} hosts needs {_GPUS_PER_NVL72_NODE} GPUs per host"
        )
    if replicas % racks or replicas // racks < _FEWEST_NODES_PER_RACK:
        faults.append(
            f"replicas={replicas} do not split evenly over {racks} racks with "
            f"{_FEWEST_NODES_PER_RACK} to {_NODES_PER_RACK} hosts each"
        )
    if faults:
        raise InvalidSpecError("ResourceConfig", faults)
    return "nvlink.domain.sliced"


def _equals(key: str, value: str) -> job_pb2.Constraint:
    return job_pb2.Constraint(
        key=key, op=job_pb2.CONSTRAINT_OP_EQ, value=_text(value), mode=job_pb2.CONSTRAINT_MODE_REQUIRED
    )


def _among(key: str, values: tuple[str, ...]) -> job_pb2.Constraint:
    return job_pb2.Constraint(
        key=key,
        op=job_pb2.CONSTRAINT_OP_IN,
        values=[_text(value) for value in values],
        mode=job_pb2.CONSTRAINT_MODE_REQUIRED,
    )


def _one_of(key: str, values: tuple[str, ...]) -> job_pb2.Constraint:
    return _equals(key, values[0]) if len(values) == 1 else _among(key, values)


def _text(value: str) -> job_pb2.AttributeValue:
    # As Iris stores and compares it.
    return job_pb2.AttributeValue(string_value=value.strip().lower())
