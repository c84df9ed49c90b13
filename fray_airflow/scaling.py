"""What a controller reports of its scaling groups: plain values, so that counting what is free needs no protobuf."""

from __future__ import annotations

from dataclasses import dataclass

GROWING = ("available", "requesting")
"""Availabilities of a group that boots more slices on demand. How many more, Iris does not tell."""

_UNREADY = ("requesting", "booting", "initializing")
_HOPELESS = ("no_matching_group", "coschedule_mismatch", "insufficient_resources")


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a group. `state` is Iris's ("ready", "booting", ...); `unusable` are VMs that do not answer."""

    slice_id: str
    state: str = "ready"
    worker_ids: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalingGroup:
    """Equal slices of one kind of machine.

    `availability` is Iris's word for whether it can grow: "available", "requesting", "cooldown" (full once what boots
    is up), "at_max_slices", "quota_exceeded" or "backoff"; `reason` explains the last two. `requested` slices are asked
    of the cloud and have no name yet.
    """

    name: str
    device_type: str = ""
    variant: str = ""
    region: str = ""
    availability: str = ""
    reason: str = ""
    slices: tuple[Slice, ...] = ()
    requested: int = 0

    @property
    def label(self) -> str:
        return f"{self.device_type} {self.variant}".strip() or self.name

    @property
    def num_vms(self) -> int | None:
        """VMs per slice, known once there is a slice."""
        return next((len(each.worker_ids) for each in self.slices if each.state == "ready"), None)

    def booting(self, registered: frozenset[str]) -> int:
        """Slices on their way. One whose VMs have registered counts with the workers, whatever its state."""
        unready = [each for each in self.slices if each.state in _UNREADY]
        return self.requested + sum(not registered.intersection(each.worker_ids) for each in unready)


@dataclass(frozen=True, slots=True)
class Demand:
    """Replicas that wait for machines, as of the last evaluation (every 10 s by default). `gang`: they start together.

    `variant` may name several, with commas, or be "*". `unmet` says why no group takes it, if none does.
    """

    device_type: str = ""
    variant: str = ""
    replicas: int = 1
    gang: bool = False
    unmet: str = ""

    @property
    def hopeless(self) -> bool:
        """Whether no machine of this cluster will do, so that it is in nobody's way."""
        return self.unmet.startswith(_HOPELESS)


@dataclass(frozen=True, slots=True)
class Scaling:
    """The autoscaler's view. A cluster without autoscaled groups has none."""

    groups: tuple[ScalingGroup, ...] = ()
    waiting: tuple[Demand, ...] = ()
