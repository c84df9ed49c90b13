"""The VMs of a fleet while it is up: who holds what on them, and which are dead."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .fleet import Fleet, ScaleGroup


class Need(NamedTuple):
    """What one task takes of its VM. Disk is tested at submit only, so it is not here."""

    cpu_millicores: int = 0
    memory_bytes: int = 0
    tpu_chips: int = 0
    gpus: int = 0

    def minus(self, other: Need) -> Need:
        return Need(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))

    def plus(self, other: Need) -> Need:
        return Need(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def lacking(self, free: Need) -> list[str]:
        """One line per quantity that does not fit into `free`."""
        labels = ("CPU", "memory", "TPUs", "GPUs")
        pairs = zip(labels, self, free, strict=True)
        return [
            f"Insufficient {label} (need {need}, available {max(have, 0)})"
            for label, need, have in pairs
            if need > max(have, 0)
        ]


@dataclass
class Worker:
    """One VM. `held` maps the uid of every attempt whose process may still be there to what it takes."""

    worker_id: str
    slice_id: str
    vm_index: int
    group: ScaleGroup
    registered_ms: int
    held: dict[str, Need] = field(default_factory=dict)
    lost_ms: int | None = None
    attributes: dict[str, str | int] = field(init=False)

    def __post_init__(self) -> None:
        self.attributes = self.group.attributes()
        if self.group.tpu_chips:
            self.attributes |= {"tpu-name": self.slice_id, "tpu-worker-id": self.vm_index}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{20000 + int(self.worker_id[-4:], 16) % 40000}"

    def capacity(self) -> Need:
        group = self.group
        return Need(group.cpu_millicores, group.memory_bytes, group.tpu_chips, group.gpus)

    def free(self) -> Need:
        free = self.capacity()
        for need in self.held.values():
            free = free.minus(need)
        return free


class Workers:
    """All VMs by id, in the order of the fleet."""

    def __init__(self, fleet: Fleet, now_ms: int) -> None:
        self._by_id: dict[str, Worker] = {}
        self._absent: list[tuple[int, Worker]] = []
        self._registrations = 0
        self.groups = fleet.groups
        stamp = time.strftime("%Y%m%d-%H%M", time.gmtime(now_ms / 1000))
        for group in fleet.groups:
            for number in range(group.slices):
                slice_id = f"iris-{group.name.replace('_', '-')}-{stamp}-{_hex(f'{group.name}/{number}')}"
                for vm_index in range(group.num_vms):
                    self._register(slice_id, vm_index, group, now_ms)

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._by_id.values())

    def get(self, worker_id: str) -> Worker | None:
        return self._by_id.get(worker_id)

    def schedulable(self) -> list[Worker]:
        return [worker for worker in self if worker.lost_ms is None]

    def slices(self, group: ScaleGroup) -> dict[str, list[Worker]]:
        found: dict[str, list[Worker]] = {}
        for worker in self:
            if worker.group is group:
                found.setdefault(worker.slice_id, []).append(worker)
        return found

    def remove(self, worker: Worker, back_ms: int) -> None:
        """Forget a dead VM; one in its place registers at `back_ms`, under a new id."""
        del self._by_id[worker.worker_id]
        self._absent.append((back_ms, worker))

    def register_replacements(self, now_ms: int) -> None:
        due = [worker for back_ms, worker in self._absent if back_ms <= now_ms]
        self._absent = [entry for entry in self._absent if entry[0] > now_ms]
        for worker in due:
            self._register(worker.slice_id, worker.vm_index, worker.group, now_ms)

    def _register(self, slice_id: str, vm_index: int, group: ScaleGroup, now_ms: int) -> None:
        self._registrations += 1
        worker_id = f"worker-{slice_id}-{vm_index}-{_hex(f'{slice_id}/{vm_index}/{self._registrations}')}"
        self._by_id[worker_id] = Worker(worker_id, slice_id, vm_index, group, now_ms)


def by_attribute(workers: Iterable[Worker], key: str) -> dict[str | int, list[Worker]]:
    """Workers by their value of an attribute; those without it are left out."""
    found: dict[str | int, list[Worker]] = {}
    for worker in workers:
        if key in worker.attributes:
            found.setdefault(worker.attributes[key], []).append(worker)
    return found


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
