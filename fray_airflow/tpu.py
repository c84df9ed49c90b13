"""TPU slices: how many VMs and chips each type has, and what a host offers.

Source of every table: marin-fray and marin-iris 0.2.227.dev40316220070 (build of 2026-10-24), where both packages hold
the same 39 rows; the build of 2026-09-13 has the same.
"""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import NamedTuple

DEFAULT_TPU_HOST_FRACTION = 0.5
"""The share of a TPU VM's CPUs and memory that a replica asks for. Half leaves room for what else runs on the host."""


class TpuTopology(NamedTuple):
    """One slice of a TPU type. A job on it needs `vm_count` replicas, each with `chips_per_vm` chips."""

    name: str
    chip_count: int
    host_count: int
    vm_count: int
    chips_per_vm: int


class TpuHostResources(NamedTuple):
    """What one TPU VM has."""

    cpu: int
    ram_gb: int


_ROWS = (
    # name, chips, hosts, VMs, chips per VM
    ("v4-8", 4, 1, 1, 4),
    ("v4-16", 8, 2, 2, 4),
    ("v4-32", 16, 4, 4, 4),
    ("v4-64", 32, 8, 8, 4),
    ("v4-128", 64, 16, 16, 4),
    ("v4-256", 128, 32, 32, 4),
    ("v4-512", 256, 64, 64, 4),
    ("v4-1024", 512, 128, 128, 4),
    ("v4-2048", 1024, 256, 256, 4),
    ("v4-4096", 2048, 512, 512, 4),
    ("v5litepod-1", 1, 1, 1, 1),
    ("v5litepod-2", 2, 1, 1, 2),
    ("v5litepod-4", 4, 1, 1, 4),
    ("v5litepod-8", 8, 1, 1, 8),
    ("v5litepod-16", 16, 2, 4, 4),
    ("v5litepod-32", 32, 4, 8, 4),
    ("v5litepod-64", 64, 8, 16, 4),
    ("v5litepod-128", 128, 16, 32, 4),
    ("v5litepod-256", 256, 32, 64, 4),
    ("v5p-8", 4, 1, 1, 4),
    ("v5p-16", 8, 2, 2, 4),
    ("v5p-32", 16, 4, 4, 4),
    ("v5p-64", 32, 8, 8, 4),
    ("v5p-128", 64, 16, 16, 4),
    ("v5p-256", 128, 32, 32, 4),
    ("v5p-512", 256, 64, 64, 4),
    ("v5p-1024", 512, 128, 128, 4),
    ("v5p-2048", 1024, 256, 256, 4),
    ("v5p-4096", 2048, 512, 512, 4),
    ("v5p-8192", 4096, 1024, 1024, 4),
    ("v5p-12288", 6144, 1536, 1536, 4),
    ("v6e-1", 1, 1, 1, 1),
    ("v6e-4", 4, 1, 1, 4),
    ("v6e-8", 8, 1, 1, 8),
    ("v6e-16", 16, 4, 4, 4),
    ("v6e-32", 32, 8, 8, 4),
    ("v6e-64", 64, 16, 16, 4),
    ("v6e-128", 128, 32, 32, 4),
    ("v6e-256", 256, 64, 64, 4),
)

TPU_TOPOLOGIES = MappingProxyType({row[0]: TpuTopology(*row) for row in _ROWS})

TPU_HOST_RESOURCES = MappingProxyType(
    {
        "v4": TpuHostResources(240, 400),
        "v5litepod": TpuHostResources(112, 192),
        "v5p": TpuHostResources(208, 448),
        "v6e": TpuHostResources(180, 720),
    }
)
"""Per family, as are the memory sizes below."""

TPU_HBM_GIB_PER_CHIP = MappingProxyType({"v4": 32, "v5litepod": 16, "v5p": 95, "v6e": 32})


def tpu_family(tpu_type: str) -> str:
    """The part before the size: "v5p" for "v5p-16"."""
    return tpu_type.partition("-")[0]


def normalize_tpu_type(tpu_type: str) -> str:
    """Lower case, and Google's product name v5e as the type name v5litepod.

    >>> normalize_tpu_type("V5E-16")
    'v5litepod-16'
    """
    name = tpu_type.strip().lower()
    return name.replace("v5e-", "v5litepod-", 1) if name.startswith("v5e-") else name


def get_tpu_topology(tpu_type: str) -> TpuTopology:
    """The slice that `tpu_type` names, after normalizing it.

    Raises ValueError that suggests the nearest types.

    >>> get_tpu_topology("v5p-16").vm_count
    2
    """
    name = normalize_tpu_type(tpu_type)
    try:
        return TPU_TOPOLOGIES[name]
    except KeyError:
        raise ValueError(f"Unknown TPU type {tpu_type!r}; {_suggestion(name)}") from None


def tpu_hbm_bytes(tpu_type: str) -> int:
    """HBM of a whole slice: chips x HBM per chip."""
    topology = get_tpu_topology(tpu_type)
    return topology.chip_count * TPU_HBM_GIB_PER_CHIP[tpu_family(topology.name)] * 1024**3


def _suggestion(name: str) -> str:
    family, _, size = name.partition("-")
    if family not in TPU_HOST_RESOURCES:
        near = difflib.get_close_matches(name, TPU_TOPOLOGIES, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        return f"{hint}families are {', '.join(TPU_HOST_RESOURCES)}"
    sizes = [int(known.removeprefix(f"{family}-")) for known in TPU_TOPOLOGIES if tpu_family(known) == family]
    nearest = min(sizes, key=lambda known: abs(known - int(size))) if size.isdecimal() else sizes[0]
    return f"did you mean '{family}-{nearest}'? {family} comes in sizes {', '.join(map(str, sizes))}"
