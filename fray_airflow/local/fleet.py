"""Which machines the embedded Iris pretends to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fray_airflow.errors import InvalidSpecError
from fray_airflow.tpu import TPU_HOST_RESOURCES, get_tpu_topology, normalize_tpu_type, tpu_family
from fray_airflow.units import parse_bytes

_CPU_HOST = (64, "256g")
_GPU_HOST = (208, "1800g")
_DISK = "1t"


@dataclass(frozen=True)
class ScaleGroup:
    """Equal slices of `num_vms` equal VMs. The numbers in the second block are per VM."""

    name: str
    device_type: str
    variant: str
    slices: int
    num_vms: int
    preemptible: bool
    region: str
    zone: str

    cpu_millicores: int
    memory_bytes: int
    disk_bytes: int
    tpu_chips: int = 0
    gpus: int = 0

    def attributes(self) -> dict[str, str | int]:
        """What constraints can ask of any VM of the group."""
        found: dict[str, str | int] = {
            "scale-group": self.name,
            "device-type": self.device_type,
            "device-variant": self.variant,
            "preemptible": "true" if self.preemptible else "false",
            "region": self.region,
            "zone": self.zone,
        }
        if self.tpu_chips:
            found |= {"tpu-topology": self.variant, "tpu-vm-count": self.num_vms}
        if self.gpus:
            found |= {"gpu-variant": self.variant, "gpu-count": self.gpus}
        return {key: value for key, value in found.items() if value != ""}


@dataclass(frozen=True)
class Fleet:
    """A fixed set of scale groups: nothing is scaled up or down.

    >>> [(group.name, group.slices, group.num_vms) for group in Fleet.of(cpu=2, tpu={"v5p-16": 3}).groups]
    [('cpu', 2, 1), ('tpu_v5p_16', 3, 2)]
    """

    groups: tuple[ScaleGroup, ...]

    @classmethod
    def of(
        cls,
        *,
        cpu: int = 0,
        tpu: Mapping[str, int] | None = None,
        gpu: Mapping[str, int] | None = None,
        gpus_per_host: int = 8,
        cpu_cores: int = _CPU_HOST[0],
        cpu_memory: str | int = _CPU_HOST[1],
        region: str = "local",
        zone: str = "local-a",
        preemptible: bool = True,
    ) -> Fleet:
        """`cpu` hosts, slices per TPU type, hosts per GPU model; `preemptible` is said of the TPUs.

        Raises InvalidSpecError (a ValueError) that lists every fault.
        """
        spec = {name: value for name, value in locals().items() if name != "cls"}
        faults = _faults(spec)
        if faults:
            raise InvalidSpecError("Fleet", faults)
        place = {"region": region, "zone": zone}
        groups = [_cpu_group(cpu, cpu_cores, cpu_memory, **place)] if cpu else []
        groups += [_tpu_group(name, count, preemptible, **place) for name, count in (tpu or {}).items()]
        groups += [_gpu_group(name, count, gpus_per_host, **place) for name, count in (gpu or {}).items()]
        return cls(tuple(groups))

    @classmethod
    def default(cls) -> Fleet:
        """What the demo runs on: two CPU hosts, two slices each of v5p-8 and v5p-16, one host with eight H100."""
        return cls.of(cpu=2, tpu={"v5p-8": 2, "v5p-16": 2}, gpu={"H100": 1})

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Fleet:
        """The keyword arguments of `of`, as they stand in a JSON file."""
        if not isinstance(mapping, Mapping):
            raise InvalidSpecError("Fleet", [f"{mapping!r} is not an object with the keys {', '.join(_KEYS)}"])
        unknown = [f"{key!r} is unknown; choose from {', '.join(_KEYS)}" for key in mapping if key not in _KEYS]
        known = {key: value for key, value in mapping.items() if key in _KEYS}
        faults = unknown + _faults(known)
        if faults:
            raise InvalidSpecError("Fleet", faults)
        return cls.of(**known)

    def __add__(self, other: Fleet) -> Fleet:
        """Both fleets, for more than one region: a group whose name is taken gets its region as suffix."""
        taken = {group.name for group in self.groups}
        renamed = [
            replace(group, name=f"{group.name}_{group.region}") if group.name in taken else group
            for group in other.groups
        ]
        return Fleet(self.groups + tuple(renamed))


def _cpu_group(hosts: int, cores: int, memory: str | int, *, region: str, zone: str) -> ScaleGroup:
    capacity = (cores * 1000, parse_bytes(memory), parse_bytes(_DISK))
    return ScaleGroup("cpu", "cpu", "", hosts, 1, False, region, zone, *capacity)


def _tpu_group(tpu_type: str, slices: int, preemptible: bool, *, region: str, zone: str) -> ScaleGroup:
    topology = get_tpu_topology(tpu_type)
    host = TPU_HOST_RESOURCES[tpu_family(topology.name)]
    capacity = (host.cpu * 1000, host.ram_gb * 1024**3, parse_bytes(_DISK))
    name = f"tpu_{topology.name.replace('-', '_')}"
    place = (preemptible, region, zone)
    return ScaleGroup(
        name, "tpu", topology.name, slices, topology.vm_count, *place, *capacity, tpu_chips=topology.chips_per_vm
    )


def _gpu_group(model: str, hosts: int, gpus: int, *, region: str, zone: str) -> ScaleGroup:
    variant = model.strip().lower()
    capacity = (_GPU_HOST[0] * 1000, parse_bytes(_GPU_HOST[1]), parse_bytes(_DISK))
    name = f"gpu_{variant.replace('-', '_')}"
    return ScaleGroup(name, "gpu", variant, hosts, 1, False, region, zone, *capacity, gpus=gpus)


_KEYS = ("cpu", "tpu", "gpu", "gpus_per_host", "cpu_cores", "cpu_memory", "region", "zone", "preemptible")


def _faults(spec: Mapping[str, Any]) -> list[str]:
    faults = [*_count_faults(spec), *_size_faults(spec)]
    for kind in ("tpu", "gpu"):
        faults += _device_faults(kind, spec.get(kind))
    for key in ("region", "zone"):
        if not isinstance(spec.get(key, ""), str):
            faults.append(f"{key}: {spec[key]!r} is not a text")
    if not isinstance(spec.get("preemptible", True), bool):
        faults.append(f"preemptible: {spec['preemptible']!r} is neither true nor false")
    return faults


def _count_faults(spec: Mapping[str, Any]) -> list[str]:
    least = {"cpu": 0, "gpus_per_host": 1, "cpu_cores": 1}
    return [
        f"{key}: {spec[key]!r} is not a whole number of at least {minimum}"
        for key, minimum in least.items()
        if key in spec and not _is_count(spec[key], minimum)
    ]


def _size_faults(spec: Mapping[str, Any]) -> list[str]:
    try:
        parse_bytes(spec.get("cpu_memory", 0))
    except ValueError as error:
        return [f"cpu_memory: {error}"]
    return []


def _device_faults(kind: str, devices: Any) -> list[str]:
    if devices is None:
        return []
    if not isinstance(devices, Mapping):
        return [f"{kind}: {devices!r} does not map a type to a number"]
    faults = [
        f"{kind}: {count!r} of {name!r} is not a whole number of at least 1"
        for name, count in devices.items()
        if not _is_count(count, 1)
    ]
    named = [name for name in devices if isinstance(name, str)]
    faults += [f"{kind}: {name!r} is not a text" for name in devices if name not in named]
    if kind == "tpu":
        faults += [f"tpu: {fault}" for name in named if (fault := _tpu_fault(name))]
    spellings = Counter(normalize_tpu_type(name) for name in named)
    return faults + [f"{kind}: {name!r} is named {times} times" for name, times in spellings.items() if times > 1]


def _tpu_fault(name: str) -> str:
    try:
        get_tpu_topology(name)
    except ValueError as error:
        return str(error)
    return ""


def _is_count(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum
