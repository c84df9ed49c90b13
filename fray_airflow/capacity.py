"""Whether a ResourceConfig could be placed now: whole slices or hosts that are free, or groups that can grow.

Facts: marin-iris 0.2.227.dev40316220070. Machines count by their workers and by what runs on them, since a slice that
the autoscaler still calls booting may be in use already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fray_airflow.devices import CpuConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.gangs import level_advice
from fray_airflow.resources import ANY_REGION, ResourceConfig
from fray_airflow.scaling import GROWING, Demand, Scaling, ScalingGroup
from fray_airflow.status import Worker
from fray_airflow.tpu import TPU_TOPOLOGIES
from fray_airflow.units import parse_bytes

ACCELERATOR_MIN_MILLICORES = 4000
_GROUPS_TOLD = 3


@dataclass(frozen=True, slots=True)
class Need:
    """What one replica takes of its machine. Disk is not here: Iris looks at it only when a job is submitted."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    accelerators: int = 0

    @classmethod
    def of(cls, config: ResourceConfig) -> Need:
        millicores = int(config.cpu * 1000)
        if not isinstance(config.device, CpuConfig):
            millicores = max(millicores, ACCELERATOR_MIN_MILLICORES)
        return cls(millicores, parse_bytes(config.ram), config.device.chip_count())

    def minus(self, other: Need) -> Need:
        return Need(
            self.cpu_millicores - other.cpu_millicores,
            self.memory_bytes - other.memory_bytes,
            self.accelerators - other.accelerators,
        )

    def times_in(self, room: Need) -> int:
        """How many replicas with this need go into `room`."""
        pairs = (
            (self.cpu_millicores, room.cpu_millicores),
            (self.memory_bytes, room.memory_bytes),
            (self.accelerators, room.accelerators),
        )
        return max(0, min((have // need for need, have in pairs if need > 0), default=1))


@dataclass(frozen=True, slots=True)
class Capacity:
    """`free` of the `wanted` slices (hosts, places) are there now. `text` says it in words.

    headroom: a group can grow, or what is booting will do. possible: False if no machine of the cluster would ever do.
    """

    wanted: int
    free: int
    headroom: bool
    text: str
    possible: bool = True

    @property
    def fits(self) -> bool:
        return self.possible and (self.free >= self.wanted or self.headroom)

    def to_json(self) -> dict[str, Any]:
        return {"wanted": self.wanted, "free": self.free, "headroom": self.headroom, "text": self.text}


def capacity_of(
    config: ResourceConfig,
    scaling: Scaling,
    workers: Sequence[Worker],
    *,
    gang_level: str = "",
    used: Mapping[str, Need] | None = None,
) -> Capacity:
    """Counts whole slices for TPU types with several VMs, hosts for a gang of GPU hosts, else places for one replica.

    gang_level: the attribute that all hosts of a GPU gang must share. used: per job id what one of its replicas takes;
    a machine that runs any other job counts as full. Gangs that wait for the same machines go first.
    Raises InvalidSpecError for a target_cluster, of whose machines this controller knows nothing.
    """
    if config.target_cluster:
        raise InvalidSpecError(
            "ResourceConfig",
            [f"target_cluster={config.target_cluster!r}: a controller tells of its own machines only; ask that one's"],
        )
    return _Count(config, scaling, workers, gang_level, used or {}).capacity()


def busy_jobs(config: ResourceConfig, workers: Sequence[Worker]) -> list[str]:
    """The jobs whose needs decide whether there is room beside them, those on the least busy machines first."""
    count = _Count(config, Scaling(), workers, "", {})
    machines = sorted(count.candidates, key=lambda worker: len(worker.task_ids))
    return list(dict.fromkeys(_job_of(task_id) for worker in machines for task_id in worker.task_ids))


class _Count:
    def __init__(
        self,
        config: ResourceConfig,
        scaling: Scaling,
        workers: Sequence[Worker],
        gang_level: str,
        used: Mapping[str, Need],
    ) -> None:
        self.config, self.scaling, self.workers, self.used = config, scaling, workers, used
        self.need = Need.of(config)
        self.variants = frozenset(
            name.strip().lower() for name in (config.device.variant, *(config.device_alternatives or ()))
        )
        self.gang_level = gang_level if config.replicas > 1 else ""
        sick = {name for group in scaling.groups for each in group.slices for name in each.unusable}
        self.suited = [worker for worker in workers if self._suits(worker)]
        self.candidates = [
            worker for worker in self.suited if worker.healthy and not worker.failures and worker.worker_id not in sick
        ]
        self.groups = [group for group in scaling.groups if self._may_suit(group)]

    def capacity(self) -> Capacity:
        wanted, unit, free = self._counted()
        if why := self._never():
            return Capacity(wanted, 0, False, why, possible=False)
        registered = frozenset(worker.worker_id for worker in self.workers)
        booting = sum(group.booting(registered) for group in self.groups)
        ahead = sum(self._share(demand) for demand in self.scaling.waiting)
        # What boots is for those who wait already.
        left = max(0, free - max(0, ahead - booting))
        growing = [group for group in self.groups if self._grows(group)]
        headroom = bool(growing) or 0 < wanted - left <= booting - ahead
        parts = [f"{left} {unit} free, {wanted} wanted" if left > wanted else f"{left} of {wanted} {unit} free"]
        if ahead:
            parts.append(f"jobs that wait already want {ahead} more")
        if left < wanted:
            parts += [*self._without_level(), *self._growth(growing, registered)]
        return Capacity(wanted, left, headroom, "; ".join(parts))

    def _counted(self) -> tuple[int, str, int]:
        """How many of what are wanted, and how many are free."""
        config, device = self.config, self.config.device
        label = " or ".join((device.variant, *(config.device_alternatives or ())))
        places = {worker.worker_id: self._places(worker) for worker in self.candidates}
        if isinstance(device, CpuConfig):
            unit = f"places for {config.cpu:g} {'core' if config.cpu == 1 else 'cores'} and {config.ram}"
            return config.replicas, unit, sum(places.values())
        if isinstance(device, TpuConfig):
            vms = device.vm_count()
            if vms == 1 or config.replicas == 1:
                unit = f"{label} {'slices' if vms == 1 else 'VMs'}"
                return config.replicas, unit, sum(places.values())
            wanted, rest = divmod(config.replicas, vms)
            if rest:
                raise InvalidSpecError(
                    "ResourceConfig",
                    [f"replicas={config.replicas} do not fill slices of {vms} VMs; give a multiple of {vms}"],
                )
            whole = self._shared("tpu-name", places)
            return wanted, f"{label} slices", sum(count == vms for count in whole.values())
        gpus = f"{device.chip_count()} {'GPUs of any kind' if 'auto' in self.variants else label}"
        if self.gang_level:
            together = self._shared(self.gang_level, places)
            return config.replicas, f"hosts for {gpus} under one {self.gang_level}", max(together.values(), default=0)
        return config.replicas, f"places for {gpus}", sum(places.values())

    def _without_level(self) -> Iterator[str]:
        """Whether the gang would wait for a level that none of its machines has."""
        level = self.gang_level if self.config.device.kind == "gpu" else ""
        if level and self.suited and not any(level in worker.attributes for worker in self.suited):
            yield level_advice(level, self.suited).rstrip(".")

    def _shared(self, level: str, places: Mapping[str, int]) -> Counter[Any]:
        """Free machines per value of an attribute."""
        return Counter(
            worker.attributes[level]
            for worker in self.candidates
            if level in worker.attributes and places[worker.worker_id]
        )

    def _places(self, worker: Worker) -> int:
        """How many replicas go onto a machine beside what runs there."""
        room = _whole(worker)
        for task_id in worker.task_ids:
            taken = self.used.get(_job_of(task_id))
            if taken is None:
                return 0
            room = room.minus(taken)
        return self.need.times_in(room)

    def _suits(self, worker: Worker) -> bool:
        def told(key: str) -> str:
            return str(worker.attributes.get(key, "")).lower()

        return self._has_device(told("device-type"), told("device-variant")) and self._may_stand(told)

    def _may_suit(self, group: ScalingGroup) -> bool:
        """A group without machines does not tell its zone, nor whether they may be taken back: it may suit then."""
        example = next((worker for worker in self.workers if worker.scale_group == group.name), None)
        known = {"region": group.region.lower()}
        if example is not None:
            known = {key: str(value).lower() for key, value in example.attributes.items()}

        def told(key: str) -> str | None:
            return known.get(key) or None

        fits = example is None or self.need.times_in(_whole(example)) > 0
        sized = not self.gang_level or isinstance(self.config.device, TpuConfig)
        # Iris boots one slice for a gang, never several.
        sized = sized or group.num_vms in (None, self.config.replicas)
        return self._has_device(group.device_type, group.variant) and self._may_stand(told) and fits and sized

    def _has_device(self, device_type: str, variant: str) -> bool:
        kind = self.config.device.kind
        if kind == "cpu":
            return True
        return device_type == kind and (variant.lower() in self.variants or (kind == "gpu" and "auto" in self.variants))

    def _may_stand(self, told: Callable[[str], str | None]) -> bool:
        """`told` answers None where it does not know."""
        config = self.config
        wanted: dict[str, tuple[str, ...]] = {}
        if not config.preemptible:
            wanted["preemptible"] = ("false",)
        if config.regions and ANY_REGION not in config.regions:
            wanted["region"] = tuple(name.strip().lower() for name in config.regions)
        if config.zone:
            wanted["zone"] = (config.zone.strip().lower(),)
        return all((value := told(key)) is None or value in names for key, names in wanted.items())

    def _never(self) -> str:
        """Why no machine of the cluster would do; "" if one may, or if the cluster has not said what it has."""
        if self.groups or not self.scaling.groups:
            return ""
        if any(self.need.times_in(_whole(worker)) for worker in self.suited):
            return ""
        has = ", ".join(sorted({group.label for group in self.scaling.groups}))
        return (
            f"no scaling group of this cluster has machines for {_described(self.config)}; its groups have {has}. "
            "Change resource_config, or the cluster's scaling groups"
        )

    def _grows(self, group: ScalingGroup) -> bool:
        return group.availability in GROWING

    def _share(self, demand: Demand) -> int:
        """How many of what we count a waiting demand will take."""
        kind = self.config.device.kind
        if demand.hopeless or (demand.device_type or "cpu") != kind:
            return 0
        asked = {name.strip().lower() for name in demand.variant.split(",")}
        if kind != "cpu" and not (asked & (self.variants | {"*"}) or "auto" in self.variants):
            return 0
        whole_slice = demand.gang and isinstance(self.config.device, TpuConfig) and self.config.device.vm_count() > 1
        return 1 if whole_slice else demand.replicas

    def _growth(self, growing: Sequence[ScalingGroup], registered: frozenset[str]) -> Iterable[str]:
        told = list(growing) or self.groups
        if not told:
            return ["no group can add any"] if self.scaling.groups else ["the cluster has no scaling groups"]
        subjects = [group.name if len(self.groups) > 1 else "the group" for group in told]
        said = [f"{name} {_says(group, registered)}" for name, group in zip(subjects, told, strict=True)]
        more = len(said) - _GROUPS_TOLD
        return said[:_GROUPS_TOLD] + ([f"{more} more groups alike"] if more > 0 else [])


def _says(group: ScalingGroup, registered: frozenset[str]) -> str:
    count = len(group.slices)
    reason = f" ({group.reason})" if group.reason else ""
    match group.availability:
        case "available":
            return "can be scaled up"
        case "requesting":
            return "is being scaled up"
        case "cooldown":
            return f"is at its maximum, with {group.booting(registered)} still booting"
        case "at_max_slices" if count:
            return f"is at its maximum of {count} {'slice' if count == 1 else 'slices'}"
        case "at_max_slices":
            return "adds no machines by itself"
        case "quota_exceeded":
            return f"has used up its quota{reason}"
        case "backoff":
            return f"waits after failed attempts to scale up{reason}"
        case other:
            return f"is {other or 'in a state that it does not tell'}{reason}"


def _described(config: ResourceConfig) -> str:
    kind = config.device.kind
    device = (
        "" if kind == "cpu" else f"{kind} {' or '.join((config.device.variant, *(config.device_alternatives or ())))}, "
    )
    where = [f"region {' or '.join(config.regions)}"] if config.regions and ANY_REGION not in config.regions else []
    where += [f"zone {config.zone}"] if config.zone else []
    where += [] if config.preemptible else ["not preemptible"]
    return ", ".join([f"{device}{config.cpu:g} cores and {config.ram} per replica", *where])


def _whole(worker: Worker) -> Need:
    chips = worker.accelerators
    if not chips and (shape := TPU_TOPOLOGIES.get(str(worker.attributes.get("device-variant", "")).lower())):
        chips = shape.chips_per_vm
    return Need(worker.cpu_millicores, worker.memory_bytes, chips)


def _job_of(task_id: str) -> str:
    return task_id.rpartition("/")[0]
