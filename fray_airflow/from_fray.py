"""marin-fray's own objects as ours, for people who have Fray specs already.

They are recognised by class name and fields; marin-fray is never imported. What cannot be carried over is refused by
the name of its field: nothing is lost in silence. Facts: marin-fray 0.2.227.dev40316220070.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from typing import Any

from fray_airflow.devices import CpuConfig, Device, GpuConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.job import Entrypoint, EnvironmentConfig, JobRequest
from fray_airflow.resources import ResourceConfig


def from_fray(value: Any) -> Any:
    """Ours for Fray's ResourceConfig, EnvironmentConfig, Entrypoint or JobRequest; all else is returned as it is.

    Raises InvalidSpecError, whose subject says "Fray", for a field that has no counterpart.
    """
    convert = _CONVERSIONS.get(type(value).__name__)
    if convert is None or not is_dataclass(value) or isinstance(value, type) or _is_ours(value):
        return value
    return convert(_fields_of(value))


def _is_ours(value: Any) -> bool:
    return type(value).__module__.startswith(__package__ or "fray_airflow")


def _resource_config(given: dict[str, Any]) -> ResourceConfig:
    _refuse_others("ResourceConfig", given, {each.name for each in fields(ResourceConfig)})
    return ResourceConfig(**{**given, "device": _device(given.get("device", CpuConfig()))})


def _device(value: Any) -> Device:
    kind = getattr(value, "kind", "cpu")
    if kind == "gpu":
        return GpuConfig(value.variant, value.count)
    if kind == "tpu":
        return TpuConfig(value.variant, value.topology)
    if kind != "cpu":
        raise InvalidSpecError("Fray ResourceConfig", [f"device kind {kind!r} is unknown; known are cpu, gpu and tpu"])
    return CpuConfig()


def _environment(given: dict[str, Any]) -> EnvironmentConfig:
    # Whatever it says, a worker's own variables are never forwarded: they hold other secrets than a laptop's.
    given.pop("secret_behavior", None)
    _refuse_others("EnvironmentConfig", given, {each.name for each in fields(EnvironmentConfig)})
    return EnvironmentConfig(**given)


def _entrypoint(given: dict[str, Any]) -> Entrypoint:
    _refuse_others("Entrypoint", given, {"callable_entrypoint", "binary_entrypoint"})
    if (binary := given.get("binary_entrypoint")) is not None:
        return Entrypoint.from_binary(binary.command, list(binary.args))
    call = given["callable_entrypoint"]
    return Entrypoint.from_callable(call.callable, list(call.args), dict(call.kwargs))


def _job_request(given: dict[str, Any]) -> JobRequest:
    _refuse_others("JobRequest", given, {each.name for each in fields(JobRequest)} - {"ports"})
    timeout = given.pop("timeout", None)
    return JobRequest(
        **{name: from_fray(value) for name, value in given.items()},
        timeout=None if timeout is None else _timedelta(timeout),
    )


def _timedelta(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(milliseconds=value.to_ms())


def _fields_of(value: Any) -> dict[str, Any]:
    """The fields that differ from their defaults: a field that we lack and that nobody set is no loss."""
    given = {}
    for each in fields(value):
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        content = getattr(value, each.name)
        if default is MISSING or content != default:
            given[each.name] = content
    return given


def _refuse_others(kind: str, given: Mapping[str, Any], known: set[str]) -> None:
    if others := sorted(given.keys() - known):
        raise InvalidSpecError(
            f"Fray {kind}", [f"{name}={given[name]!r} has no counterpart here; leave it out" for name in others]
        )


_CONVERSIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "ResourceConfig": _resource_config,
    "EnvironmentConfig": _environment,
    "Entrypoint": _entrypoint,
    "JobRequest": _job_request,
}
