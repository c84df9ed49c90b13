"""One choice of machines of a launch, in a few numbers: all that the lifecycle needs to know of a ResourceConfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rung:
    """One choice of machines.

    slices: jobs of one gang each, that stand or fall together; 1 for an ordinary job.
    replicas: of all slices. chips_per_replica: 0 for CPUs.
    name: what the log calls it. device: the TPU type, GPU model, or "cpu"; "" from an older writer.
    """

    replicas: int = 1
    chips_per_replica: int = 0
    slices: int = 1
    name: str = ""
    device: str = ""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Rung.__dataclass_fields__}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Rung:
        return Rung(**{name: value[name] for name in Rung.__dataclass_fields__ if name in value})
