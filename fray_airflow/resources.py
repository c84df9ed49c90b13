"""ResourceConfig: what one replica of a job needs, and how many replicas there are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from fray_airflow.devices import CpuConfig, Device, GpuConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.tpu import (
    DEFAULT_TPU_HOST_FRACTION,
    TPU_HOST_RESOURCES,
    get_tpu_topology,
    normalize_tpu_type,
    tpu_family,
)
from fray_airflow.units import parse_bytes, scale_size

ANY_REGION = "*"
"""As the only region: run anywhere, also where a parent job is pinned to a region. It never goes on the wire."""

MAX_REPLICAS = 10_000
"""Iris fails a job with more."""

CONTAINER_PROFILES = ("restricted", "default", "docker_access", "privileged", "gvisor", "sandbox")

_SMALLEST_SIZE = 1024**2
# What the request's fields can hold: 32 bits of millicores, 64 bits of bytes.
_LARGEST_SIZE = 2**63 - 1
_MOST_CORES = (2**31 - 1) / 1000


@dataclass(frozen=True, kw_only=True)
class ResourceConfig:
    """What one replica needs (shape: `replicas` x one VM with `device.chip_count()` chips).

    Usually made by `with_cpu`, `with_gpu` or `with_tpu`. Frozen and hashable; checked when it is made, and one
    `InvalidSpecError` names every fault.

    cpu: cores, fractions allowed; 1, as Fray.
    ram, disk: sizes like "16g" (binary units); "4g" and "64g", as Fray.
    device: CpuConfig, GpuConfig or TpuConfig.
    preemptible: True lets Iris use machines that it may take back, and is cheaper; False insists on others.
    regions: any of these; None leaves it to Iris. zone: exactly this one.
    target_cluster: a federation peer's name.
    replicas: tasks of the job. `with_tpu` sets slices x VMs per slice.
    device_alternatives: other variants that would do as well. TPU types must have the same VMs and chips per VM.
    image: container image of the task.
    container_profile: one of CONTAINER_PROFILES; None leaves it to Iris.

    >>> ResourceConfig.with_tpu("v5p-16").replicas
    2
    """

    cpu: float = 1
    ram: str = "4g"
    disk: str = "64g"
    device: Device = field(default_factory=CpuConfig)
    preemptible: bool = True
    regions: tuple[str, ...] | None = None
    zone: str | None = None
    target_cluster: str | None = None
    replicas: int = 1
    device_alternatives: tuple[str, ...] | None = None
    image: str | None = None
    container_profile: str | None = None

    def __post_init__(self) -> None:
        for name in ("regions", "device_alternatives"):
            value = getattr(self, name)
            if isinstance(value, Sequence) and not isinstance(value, str):
                object.__setattr__(self, name, tuple(value) or None)
        if isinstance(self.device, TpuConfig) and _are_texts(self.device_alternatives):
            names = tuple(normalize_tpu_type(name) for name in self.device_alternatives or ())
            object.__setattr__(self, "device_alternatives", names)
        faults = [fault for check in _CHECKS for fault in check(self)]
        if faults:
            raise InvalidSpecError("ResourceConfig", faults)

    @staticmethod
    def with_cpu(**overrides: Any) -> ResourceConfig:
        """A replica without accelerator. `overrides` are fields of ResourceConfig."""
        return _build(CpuConfig(), {}, overrides)

    @staticmethod
    def with_gpu(gpu_type: str, count: int = 1, **overrides: Any) -> ResourceConfig:
        """A replica with `count` GPUs on one host.

        cpu and ram stay at 1 core and 4g, as Fray has it: GPU hosts differ too much for a default share.
        """
        return _build(GpuConfig(gpu_type, count), {}, overrides)

    @staticmethod
    def with_tpu(tpu_type: str | Sequence[str], *, slice_count: int = 1, **overrides: Any) -> ResourceConfig:
        """`slice_count` TPU slices, one replica per VM (shape: slices x VMs per slice x chips per VM).

        Of a list of types the first counts, the others become `device_alternatives`. A replica asks for half of its
        host's CPUs and memory (DEFAULT_TPU_HOST_FRACTION of TPU_HOST_RESOURCES) and 50g of disk.

        >>> config = ResourceConfig.with_tpu("v5p-8", slice_count=2)
        >>> config.replicas, config.cpu, config.ram
        (2, 104, '224g')
        """
        types = [tpu_type] if isinstance(tpu_type, str) else list(tpu_type)
        if not types:
            raise InvalidSpecError("ResourceConfig", ["tpu_type=[] names no TPU type"])
        if not isinstance(slice_count, int) or isinstance(slice_count, bool) or slice_count < 1:
            raise InvalidSpecError(
                "ResourceConfig",
                [f"slice_count={slice_count!r} is not a number of slices; give a whole number from 1 on"],
            )
        device = TpuConfig(types[0])
        host = TPU_HOST_RESOURCES[tpu_family(device.variant)]
        defaults = {
            "cpu": max(1, int(host.cpu * DEFAULT_TPU_HOST_FRACTION)),
            "ram": f"{int(host.ram_gb * DEFAULT_TPU_HOST_FRACTION)}g",
            "disk": "50g",
            "replicas": slice_count * device.vm_count(),
            "device_alternatives": types[1:],
        }
        return _build(device, defaults, overrides)

    def scale(
        self,
        factor: float | None = None,
        /,
        *,
        cpu: float | None = None,
        ram: float | None = None,
        disk: float | None = None,
    ) -> ResourceConfig:
        """A copy with cpu, ram and disk multiplied, all by `factor` or each by its own; replicas never change.

        >>> ResourceConfig.with_cpu(cpu=4, ram="16g").scale(ram=2).ram
        '32g'
        """
        if factor is not None and not (cpu is ram is disk is None):
            raise InvalidSpecError("ResourceConfig.scale", ["give one factor for all, or factors by name, not both"])
        factors = (
            {"cpu": cpu, "ram": ram, "disk": disk} if factor is None else dict.fromkeys(("cpu", "ram", "disk"), factor)
        )
        bad = [
            f"{name}={by!r} is not a factor above 0"
            for name, by in factors.items()
            if by is not None and not _positive(by)
        ]
        if bad:
            raise InvalidSpecError("ResourceConfig.scale", bad)
        by = {name: 1 if by is None else by for name, by in factors.items()}
        return replace(
            self,
            cpu=self.cpu * by["cpu"],
            ram=self.ram if by["ram"] == 1 else scale_size(self.ram, by["ram"]),
            disk=self.disk if by["disk"] == 1 else scale_size(self.disk, by["disk"]),
        )

    def chip_count(self) -> int:
        """Chips of the whole job: chips per VM x replicas."""
        return self.device.chip_count() * self.replicas

    def slice_count(self) -> int:
        """TPU slices that the replicas fill; 1 for all else."""
        vms = self.device.vm_count() if isinstance(self.device, TpuConfig) else self.replicas
        return 1 if self.replicas % vms else self.replicas // vms

    def device_flops(self, dtype: str = "bf16") -> float:
        """Peak FLOP/s of one chip. Raises ValueError for a device or dtype without a figure."""
        return self.device.device_flops(dtype)

    def total_flops(self, dtype: str = "bf16") -> float:
        """Peak FLOP/s of the whole job; a CPU job counts as CPU_FLOPS."""
        chips = 1 if isinstance(self.device, CpuConfig) else self.chip_count()
        return self.device_flops(dtype) * chips


def _build(device: Device, defaults: dict[str, Any], overrides: dict[str, Any]) -> ResourceConfig:
    known = {each.name for each in fields(ResourceConfig)} - {"device"}
    if unknown := sorted(overrides.keys() - known):
        raise InvalidSpecError(
            "ResourceConfig", [f"{name!r} is not a field; fields are {', '.join(sorted(known))}" for name in unknown]
        )
    return ResourceConfig(device=device, **{**defaults, **overrides})


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def _are_texts(values: object) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, str) and value.strip() for value in values)


def _check_cpu(config: ResourceConfig) -> list[str]:
    if _positive(config.cpu) and 0.001 <= config.cpu <= _MOST_CORES:
        return []
    return [f"cpu={config.cpu!r} is not a number of cores; give at least 0.001"]


def _check_sizes(config: ResourceConfig) -> list[str]:
    faults = []
    for name in ("ram", "disk"):
        value = getattr(config, name)
        try:
            size = parse_bytes(value)
        except ValueError as error:
            faults.append(f"{name}: {error}")
            continue
        if size > _LARGEST_SIZE:
            faults.append(f"{name}={value!r} is more than Iris can count ({_LARGEST_SIZE} bytes)")
        elif size < _SMALLEST_SIZE:
            meant = f'; did you mean "{size}g"?' if 0 < size <= 4096 else '; give at least "1m"'
            faults.append(f"{name}={value!r} is {size} bytes{meant}")
    return faults


def _check_replicas(config: ResourceConfig) -> list[str]:
    count = config.replicas
    if isinstance(count, int) and not isinstance(count, bool) and 1 <= count <= MAX_REPLICAS:
        return []
    return [f"replicas={count!r} is not a number of replicas; give a whole number from 1 to {MAX_REPLICAS}"]


def _check_device(config: ResourceConfig) -> list[str]:
    if isinstance(config.device, CpuConfig | GpuConfig | TpuConfig):
        return []
    return [f"device={config.device!r} is not a CpuConfig, GpuConfig or TpuConfig"]


def _check_alternatives(config: ResourceConfig) -> list[str]:
    names = config.device_alternatives
    if names is None:
        return []
    if not _are_texts(names):
        return [f"device_alternatives={names!r} is not a list of device variants"]
    if isinstance(config.device, CpuConfig):
        return [f"device_alternatives={list(names)!r} need a GPU or TPU device; this one is a CPU"]
    if isinstance(config.device, TpuConfig):
        return [fault for name in names for fault in _check_tpu_alternative(config.device.variant, name)]
    return []


def _check_tpu_alternative(primary: str, name: str) -> list[str]:
    try:
        other = get_tpu_topology(name)
    except ValueError as error:
        return [f"device_alternatives: {error}"]
    shape = get_tpu_topology(primary)
    if (other.vm_count, other.chips_per_vm) == (shape.vm_count, shape.chips_per_vm):
        return []
    return [
        f"device_alternatives: {name!r} has {other.vm_count} VMs x {other.chips_per_vm} chips, "
        f"but {primary!r} has {shape.vm_count} x {shape.chips_per_vm}; alternatives must have the same shape"
    ]


def _check_texts(config: ResourceConfig) -> list[str]:
    faults = []
    for name in ("zone", "target_cluster", "image"):
        value = getattr(config, name)
        if value is not None and not (isinstance(value, str) and value.strip()):
            faults.append(f"{name}={value!r} is not a name; leave it out (None) or give text")
    regions = config.regions
    if regions is not None and not _are_texts(regions):
        faults.append(f"regions={regions!r} is not a list of region names")
    elif regions is not None and ANY_REGION in regions and len(regions) > 1:
        faults.append(f"regions={list(regions)!r} mixes {ANY_REGION!r} (any region) with names; give one or the other")
    if config.container_profile is not None and config.container_profile not in CONTAINER_PROFILES:
        faults.append(
            f"container_profile={config.container_profile!r} is unknown; choose from {', '.join(CONTAINER_PROFILES)}"
        )
    if not isinstance(config.preemptible, bool):
        faults.append(f"preemptible={config.preemptible!r} is not True or False")
    return faults


_CHECKS: tuple[Callable[[ResourceConfig], list[str]], ...] = (
    _check_cpu,
    _check_sizes,
    _check_device,
    _check_replicas,
    _check_alternatives,
    _check_texts,
)
