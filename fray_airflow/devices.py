"""The device that a replica computes on: what it is called, how many chips one VM has, its default environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fray_airflow.errors import InvalidSpecError
from fray_airflow.flops import device_flops
from fray_airflow.tpu import get_tpu_topology, tpu_family

CPU_FLOPS = 100e9
"""A round figure, so that CPU jobs can be compared at all. Source: marin-fray 0.2.227.dev40316220070."""

MAX_GPU_COUNT = 2**31 - 1
"""What the request's field can hold."""

_SCOPED_VMEM_KIB = {"v5litepod": 50_000, "v5p": 50_000, "v6e": 98_304}


@dataclass(frozen=True, slots=True)
class CpuConfig:
    """No accelerator."""

    kind: ClassVar[str] = "cpu"
    variant: ClassVar[str] = "cpu"

    def chip_count(self) -> int:
        return 0

    def device_flops(self, dtype: str = "bf16") -> float:
        return CPU_FLOPS

    def default_env_vars(self) -> dict[str, str]:
        return {"JAX_PLATFORMS": "cpu"}


@dataclass(frozen=True, slots=True)
class GpuConfig:
    """`count` GPUs of model `variant` ("H100", "A100-80G", "auto" for any) on one host."""

    variant: str
    count: int = 1
    kind: ClassVar[str] = "gpu"

    def __post_init__(self) -> None:
        faults = []
        if not isinstance(self.variant, str) or not self.variant.strip():
            faults.append(f'variant={self.variant!r} is not a GPU model; for example "H100", "A100-80G" or "auto"')
        if not isinstance(self.count, int) or isinstance(self.count, bool) or not 1 <= self.count <= MAX_GPU_COUNT:
            faults.append(f"count={self.count!r} is not a number of GPUs; give a whole number from 1 on")
        if faults:
            raise InvalidSpecError("GpuConfig", faults)

    def chip_count(self) -> int:
        return self.count

    def device_flops(self, dtype: str = "bf16") -> float:
        return _known_flops(self.variant, dtype)

    def default_env_vars(self) -> dict[str, str]:
        return {"JAX_PLATFORMS": ""}


@dataclass(frozen=True, slots=True)
class TpuConfig:
    """One VM of a TPU slice of type `variant`. The type's name is normalized ("V5E-16" is "v5litepod-16")."""

    variant: str
    topology: str | None = None
    kind: ClassVar[str] = "tpu"

    def __post_init__(self) -> None:
        if not isinstance(self.variant, str):
            raise InvalidSpecError("TpuConfig", [f'variant={self.variant!r} is not a TPU type; for example "v5p-8"'])
        try:
            object.__setattr__(self, "variant", get_tpu_topology(self.variant).name)
        except ValueError as error:
            raise InvalidSpecError("TpuConfig", [f"variant={self.variant!r}: {error}"]) from None

    def chip_count(self) -> int:
        """Chips per VM, not per slice."""
        return get_tpu_topology(self.variant).chips_per_vm

    def vm_count(self) -> int:
        """VMs per slice."""
        return get_tpu_topology(self.variant).vm_count

    def device_flops(self, dtype: str = "bf16") -> float:
        return _known_flops(self.variant, dtype)

    def default_env_vars(self) -> dict[str, str]:
        env = {"JAX_PLATFORMS": ""}
        if limit := _SCOPED_VMEM_KIB.get(tpu_family(self.variant)):
            env["LIBTPU_INIT_ARGS"] = f"--xla_tpu_scoped_vmem_limit_kib={limit}"
        return env


Device = CpuConfig | GpuConfig | TpuConfig


def _known_flops(variant: str, dtype: str) -> float:
    flops = device_flops(variant, dtype)
    if flops is None:
        raise ValueError(f"no FLOP/s are known for device {variant!r} with dtype {dtype!r}")
    return flops
