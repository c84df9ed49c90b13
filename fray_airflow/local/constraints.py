"""Constraints: brought into Iris's normal form, joined with what the device implies, and matched."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping

from fray_airflow.iris._gen import job_pb2

ROUTING_KEYS = frozenset({"device-type", "device-variant", "preemptible", "region", "zone"})
"""On these a constraint of the user's replaces the one that follows from the device."""

AVAILABILITY = "availability:"

Value = str | int | float
Attributes = Mapping[str, str | int]

_ORDERINGS: Mapping[int, Callable[[float, float], bool]] = {
    job_pb2.CONSTRAINT_OP_GT: operator.gt,
    job_pb2.CONSTRAINT_OP_GE: operator.ge,
    job_pb2.CONSTRAINT_OP_LT: operator.lt,
    job_pb2.CONSTRAINT_OP_LE: operator.le,
}
_WITHOUT_VALUE = frozenset({job_pb2.CONSTRAINT_OP_EXISTS, job_pb2.CONSTRAINT_OP_NOT_EXISTS})


def normalize(constraint: job_pb2.Constraint) -> None:
    """Strip and lower-case texts in place. Raises ValueError for what Iris cannot read."""
    if constraint.op not in job_pb2.ConstraintOp.values():
        raise ValueError(f"{constraint.op} is not a valid ConstraintOp")
    for value in (constraint.value, *constraint.values):
        if value.HasField("string_value"):
            value.string_value = value.string_value.strip().lower()
    name = job_pb2.ConstraintOp.Name(constraint.op).removeprefix("CONSTRAINT_OP_")
    if constraint.op == job_pb2.CONSTRAINT_OP_IN:
        if not constraint.values:
            raise ValueError("Constraint op IN requires 1..∞ values, got 0")
    elif constraint.op not in _WITHOUT_VALUE and constraint.value.WhichOneof("value") is None:
        raise ValueError(f"Constraint op {name} requires 1..1 values, got 0")


def check_regions(constraints: Iterable[job_pb2.Constraint]) -> None:
    """Raises ValueError for regions that cannot be put into words: anything but equality, or two at once.

    Iris puts them into words only to explain why no group matches.
    """
    rules = [constraint for constraint in constraints if constraint.key == "region"]
    for rule in rules:
        if rule.op not in (job_pb2.CONSTRAINT_OP_EQ, job_pb2.CONSTRAINT_OP_IN):
            raise ValueError(f"region constraint must use EQ or IN, got {rule.op}")
    wanted = {value for rule in rules for value in values_of(rule)}
    if len(wanted) > 1 and all(rule.op == job_pb2.CONSTRAINT_OP_EQ for rule in rules):
        raise ValueError("conflicting region constraints")


def values_of(constraint: job_pb2.Constraint) -> list[Value]:
    held = constraint.values if constraint.op == job_pb2.CONSTRAINT_OP_IN else [constraint.value]
    return [_plain(value) for value in held]


def implied_by(device: job_pb2.DeviceConfig, own_keys: set[str]) -> list[job_pb2.Constraint]:
    """What a TPU or GPU request implies. A CPU request implies nothing: it may land on any VM."""
    kind = device.WhichOneof("device")
    if kind not in ("tpu", "gpu"):
        return []
    variant = (device.tpu.variant if kind == "tpu" else device.gpu.variant).strip().lower()
    implied = {"device-type": kind}
    if variant and variant != "auto":
        implied["device-variant"] = variant
    return [equals(key, value) for key, value in implied.items() if key not in own_keys]


def equals(key: str, value: str) -> job_pb2.Constraint:
    return job_pb2.Constraint(key=key, op=job_pb2.CONSTRAINT_OP_EQ, value=job_pb2.AttributeValue(string_value=value))


def required(constraints: Iterable[job_pb2.Constraint]) -> list[job_pb2.Constraint]:
    """Those a worker has to meet: preferences only rank, availability is a matter between groups."""
    return [
        constraint
        for constraint in constraints
        if constraint.mode != job_pb2.CONSTRAINT_MODE_PREFERRED and not constraint.key.startswith(AVAILABILITY)
    ]


def is_ordering(constraint: job_pb2.Constraint) -> bool:
    return constraint.op in _ORDERINGS


def matches(constraint: job_pb2.Constraint, attributes: Attributes) -> bool:
    """Raises TypeError when a text is to be ordered. The scheduler does not catch it, which is Iris's behaviour."""
    op, present = constraint.op, constraint.key in attributes
    if op in _WITHOUT_VALUE:
        return present == (op == job_pb2.CONSTRAINT_OP_EXISTS)
    if not present:
        return op == job_pb2.CONSTRAINT_OP_NE
    mine, asked = attributes[constraint.key], values_of(constraint)
    if op in _ORDERINGS:
        return _ordered(op, mine, asked[0])
    found = any(_equal(mine, value) for value in asked)
    return not found if op == job_pb2.CONSTRAINT_OP_NE else found


def _ordered(op: int, mine: Value, asked: Value) -> bool:
    if isinstance(mine, str) or isinstance(asked, str):
        raise TypeError(f"ordering needs numbers, got {mine!r} and {asked!r}")
    return _ORDERINGS[op](mine, asked)


def _equal(mine: Value, asked: Value) -> bool:
    if isinstance(mine, str) and isinstance(asked, str):
        return mine.lower() == asked
    return mine == asked


def _plain(value: job_pb2.AttributeValue) -> Value:
    match value.WhichOneof("value"):
        case "int_value":
            return value.int_value
        case "float_value":
            return value.float_value
        case _:
            return value.string_value
