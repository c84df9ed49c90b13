"""Peak FLOP/s of accelerators, dense, per device and number format.

Source: marin-fray 0.2.227.dev40316220070 (build of 2026-10-24). Its keys are not this package's device names: see
`device_flops`.
"""

from __future__ import annotations

from types import MappingProxyType

PEAK_FLOPS = MappingProxyType(
    {
        "h100": {
            "fp64": 6.7e13,
            "fp32": 6.7e13,
            "tf32": 4.945e14,
            "fp16": 9.895e14,
            "bf16": 9.895e14,
            "fp8": 1.979e15,
            "int8": 1.979e15,
        },
        "h100-pcie": {
            "fp64": 5.1e13,
            "fp32": 5.1e13,
            "tf32": 3.78e14,
            "fp16": 7.565e14,
            "bf16": 7.565e14,
            "fp8": 1.513e15,
            "int8": 1.513e15,
        },
        "h200": {
            "fp64": 6.7e13,
            "fp32": 6.7e13,
            "tf32": 4.945e14,
            "fp16": 9.895e14,
            "bf16": 9.895e14,
            "fp8": 1.979e15,
            "int8": 1.979e15,
        },
        "a100": {"fp64": 1.95e13, "fp32": 1.95e13, "tf32": 1.56e14, "fp16": 3.12e14, "bf16": 3.12e14},
        "a100-40g": {"fp64": 1.95e13, "fp32": 1.95e13, "tf32": 1.56e14, "fp16": 3.12e14, "bf16": 3.12e14},
        "a100-80g": {"fp64": 1.95e13, "fp32": 1.95e13, "tf32": 1.56e14, "fp16": 3.12e14, "bf16": 3.12e14},
        "a10": {"fp32": 3.12e13, "tf32": 6.25e13, "fp16": 1.25e14, "bf16": 1.25e14},
        "a10g": {"fp32": 3.12e13, "tf32": 6.25e13, "fp16": 1.25e14, "bf16": 1.25e14},
        "a40": {"fp32": 3.74e13, "tf32": 7.48e13, "fp16": 1.497e14, "bf16": 1.497e14},
        "a6000": {"fp32": 3.87e13, "tf32": 1.5485e14, "fp16": 1.5485e14, "bf16": 1.5485e14},
        "b100": {
            "fp64": 6.7e13,
            "fp32": 6.7e13,
            "tf32": 4.945e14,
            "fp16": 9.895e14,
            "bf16": 9.895e14,
            "fp8": 1.979e15,
            "int8": 1.979e15,
        },
        "b200": {
            "fp64": 4e13,
            "fp32": 8e13,
            "tf32": 1.25e15,
            "fp16": 2.5e15,
            "bf16": 2.5e15,
            "fp8": 5e15,
            "int8": 5e15,
            "fp4": 1e16,
        },
        "v100": {"fp64": 7e12, "fp32": 1.4e13, "fp16": 1.12e14},
        "v100-sxm": {"fp64": 7.8e12, "fp32": 1.57e13, "fp16": 1.25e14},
        "v100s": {"fp64": 8.2e12, "fp32": 1.64e13, "fp16": 1.3e14},
        "t4": {"fp32": 8.1e12, "fp16": 6.5e13, "int8": 1.3e14, "int4": 2.6e14},
        "l4": {"fp32": 3.03e13, "tf32": 6e13, "fp16": 1.21e14, "bf16": 1.21e14, "fp8": 2.425e14, "int8": 2.425e14},
        "l40s": {
            "fp32": 9.16e13,
            "tf32": 1.832e14,
            "fp16": 3.665e14,
            "bf16": 3.665e14,
            "fp8": 7.33e14,
            "int8": 7.33e14,
        },
        "gb10": {"bf16": 1e14},
        "mi300x": {
            "fp64": 1.634e14,
            "fp32": 1.634e14,
            "tf32": 6.537e14,
            "fp16": 1.3074e15,
            "bf16": 1.3074e15,
            "fp8": 2.6149e15,
            "int8": 2.6149e15,
        },
        "mi325x": {
            "fp64": 1.634e14,
            "fp32": 1.634e14,
            "tf32": 6.537e14,
            "fp16": 1.3074e15,
            "bf16": 1.3074e15,
            "fp8": 2.6149e15,
            "int8": 2.6149e15,
        },
        "mi350x": {
            "fp64": 7.21e13,
            "fp32": 1.442e14,
            "fp16": 2.3096e15,
            "bf16": 2.3096e15,
            "fp8": 4.614e15,
            "int8": 4.614e15,
        },
        "mi355x": {
            "fp64": 7.86e13,
            "fp32": 1.573e14,
            "fp16": 2.5166e15,
            "bf16": 2.5166e15,
            "fp8": 5.0332e15,
            "int8": 5.0332e15,
        },
        "auto": {
            "fp64": 6.7e13,
            "fp32": 6.7e13,
            "tf32": 4.945e14,
            "fp16": 9.895e14,
            "bf16": 9.895e14,
            "fp8": 1.979e15,
            "int8": 1.979e15,
        },
        "v3": {"bf16": 6.15e13},
        "v4": {"bf16": 2.75e14, "int8": 2.75e14},
        "v5litepod": {"bf16": 1.97e14, "int8": 3.93e14},
        "v5": {"bf16": 4.59e14},
        "v5p": {"bf16": 4.59e14},
        "v6e": {"bf16": 9.18e14, "int8": 1.836e15},
        "trn1": {"fp32": 2.375e13, "tf32": 2.375e13, "fp16": 9.5e13, "bf16": 9.5e13, "int8": 1.9e14},
    }
)


def device_flops(variant: str, dtype: str = "bf16") -> float | None:
    """FLOP/s of one chip or GPU, None if the table does not have it.

    TPU types are looked up by family ("v5p-16" as "v5p"), an "amp_" prefix of the number format does not count.

    >>> device_flops("v5p-16"), device_flops("H100", "fp8"), device_flops("GB200")
    (459000000000000.0, 1979000000000000.0, None)
    """
    name = variant.lower()
    family = name.partition("-")[0] if name.startswith("v") else name
    return PEAK_FLOPS.get(family, {}).get(dtype.lower().removeprefix("amp_"))
