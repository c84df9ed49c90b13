"""What a job would be, said before it is submitted: facts, which read as text or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

WIDTH = 100
_LABEL = 14


@dataclass(frozen=True, slots=True)
class Topology:
    """`kind` is cpu, gpu or tpu. Slices x VMs x chips per VM for a TPU; without one, 0 slices of 0 VMs."""

    kind: str
    variant: str
    slices: int
    vms_per_slice: int
    chips_per_vm: int

    def __str__(self) -> str:
        if self.kind == "tpu":
            parts = (_count(self.slices, "slice"), _count(self.vms_per_slice, "VM"), _count(self.chips_per_vm, "chip"))
            return f"{' x '.join(parts)} (TPU {self.variant})"
        if self.kind == "gpu":
            return f"{_count(self.chips_per_vm, 'GPU')} on one host for each replica ({self.variant})"
        return "no accelerator"


@dataclass(frozen=True, slots=True)
class HostShare:
    """What one replica takes of its VM, and why so much. `amount` is cores, or bytes."""

    name: str
    amount: float
    source: str

    def __str__(self) -> str:
        shown = _count(self.amount, "core") if self.name == "cpu" else f"{self.amount / 1024**3:.6g} GiB {self.name}"
        return f"{shown}, {self.source}"


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a job could be placed at this moment: yes, after scaling up, no, never, or unknown; and why."""

    answer: str
    text: str

    def __str__(self) -> str:
        return f"{self.answer}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Made by `fray_airflow.iris.explain.explain`. `str()` is for people, `to_json()` for programs.

    peak_flops: FLOP/s of the whole job in bf16, None for a device without a figure.
    environment: values of names that look secret are hidden. secrets: names only.
    outlook: what Iris will do with the job. unrendered: templates by argument, as they stand in the DAG.
    request: text protobuf, with sizes in place of shipped bytes, and without any secret.
    fit: where somebody asked an Iris.
    """

    job_id: str
    runs: str
    topology: Topology
    replicas: int
    host: tuple[HostShare, ...]
    chips: int
    peak_flops: float | None
    constraints: tuple[str, ...]
    coscheduling: str
    environment: Mapping[str, str]
    secrets: tuple[str, ...]
    image: str
    code: tuple[str, ...]
    outlook: tuple[str, ...]
    request: str
    unrendered: Mapping[str, str] = field(default_factory=dict)
    fit: Fit | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for label, values in self._facts():
            for number, value in enumerate(values):
                yield _labelled(label if number == 0 else "", value)
        yield from _section("What Iris will do", self.outlook)
        yield from _section("Whether it fits now", (str(self.fit),) if self.fit else ())
        unrendered = (f"{name}: {value}" for name, value in self.unrendered.items())
        yield from _section("Not known before the task runs", unrendered)
        yield ""
        yield "Request"
        yield textwrap.indent(self.request.rstrip(), "  ")

    def _facts(self) -> Iterator[tuple[str, tuple[object, ...]]]:
        yield "job", (self.job_id,)
        yield "runs", (self.runs,)
        yield "topology", (self.topology,)
        yield "replicas", (f"{self.replicas}, one per VM" if self.topology.slices else self.replicas,)
        yield "each replica", self.host
        yield "chips", (self.chips or "none",)
        yield "peak", (_flops(self.peak_flops),)
        yield "constraints", self.constraints or ("none",)
        yield "gang", (f"all replicas share one {self.coscheduling}" if self.coscheduling else "none",)
        if self.image:
            yield "image", (self.image,)
        yield "code", self.code
        yield "environment", tuple(f"{name}={value}" for name, value in self.environment.items())
        yield "secrets", tuple(f"{name} (hidden)" for name in self.secrets)


def _labelled(label: str, value: object) -> str:
    indent = " " * _LABEL
    return textwrap.fill(
        str(value),
        WIDTH,
        initial_indent=label.ljust(_LABEL),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _section(title: str, sentences: Iterator[str] | tuple[str, ...]) -> Iterator[str]:
    shown = [
        textwrap.fill(each, WIDTH, initial_indent="  - ", subsequent_indent="    ", break_long_words=False)
        for each in sentences
    ]
    if shown:
        yield from ("", title, *shown)


def _count(number: float, noun: str) -> str:
    return f"{number:g} {noun}{'' if number == 1 else 's'}"


def _flops(value: float | None) -> str:
    if value is None:
        return "not known for this device"
    for unit, scale in (("EFLOP/s", 1e18), ("PFLOP/s", 1e15)):
        if value >= scale:
            return f"{value / scale:.4g} {unit} in bf16"
    return f"{value / 1e12:.4g} TFLOP/s in bf16"
