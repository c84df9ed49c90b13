"""Specs as plain dicts and back: what an operator keeps, since Jinja looks into dicts and not into dataclasses."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from fray_airflow.devices import CpuConfig, GpuConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.from_fray import from_fray
from fray_airflow.job import EnvironmentConfig
from fray_airflow.resources import ResourceConfig

_DEVICES = {"cpu": CpuConfig, "gpu": GpuConfig, "tpu": TpuConfig}
_BUILDER_KEYS = {"tpu", "slice_count", "gpu", "gpu_count"}
_INTEGERS = {"replicas", "count", "slice_count", "gpu_count"}
_NUMBERS = {"cpu"}
_FLAGS = {"preemptible"}
_OPTIONAL = {
    "zone",
    "target_cluster",
    "image",
    "container_profile",
    "regions",
    "device_alternatives",
    "workspace",
    "docker_image",
    "setup_scripts",
    "topology",
}
"""Where the text "None", which a template makes of None, means the default."""
_LISTS = {"regions", "device_alternatives", "extras", "pip_packages", "setup_scripts"}


def to_plain(value: Any) -> Any:
    """Specs, also in a list, as dicts of what differs from the defaults. All else is returned as the same object.

    The identity matters: Airflow does not render an object that came out of an XCom; a copy of it would be rendered.
    Secrets are left out: what an operator keeps is shown in the UI.
    """
    value = from_fray(value)
    if isinstance(value, ResourceConfig | EnvironmentConfig):
        return _spec_to_plain(value)
    if isinstance(value, list | tuple) and any(is_dataclass(each) for each in value):
        return [to_plain(each) for each in value]
    return value


def resource_config_from(value: Any) -> ResourceConfig:
    """A ResourceConfig from a rendered value: itself, a dict of its fields, a builder's arguments, or JSON of either.

    {"tpu": "v5p-16", "slice_count": 2} means `with_tpu("v5p-16", slice_count=2)`, {"gpu": "H100", "gpu_count": 8} means
    `with_gpu("H100", count=8)`; fields may follow. Texts that a template made become numbers where the field is one.
    Raises InvalidSpecError.
    """
    value = from_fray(value)
    if isinstance(value, ResourceConfig):
        return value
    given = _mapping("resource_config", value)
    _refuse_unknown("resource_config", given, {each.name for each in fields(ResourceConfig)} | _BUILDER_KEYS)
    given = _coerced("resource_config", given)
    if "tpu" in given:
        _refuse_together(given, "tpu", ("device", "gpu", "gpu_count"))
        return _built(ResourceConfig.with_tpu, given.pop("tpu"), slice_count=given.pop("slice_count", 1), **given)
    if "gpu" in given:
        _refuse_together(given, "gpu", ("device", "slice_count"))
        return _built(ResourceConfig.with_gpu, given.pop("gpu"), given.pop("gpu_count", 1), **given)
    if alone := [name for name in ("slice_count", "gpu_count") if name in given]:
        raise InvalidSpecError("resource_config", [f"{name!r} is given without its device" for name in alone])
    if "device" in given:
        given["device"] = _device_from(given["device"])
    return ResourceConfig(**given)


def environment_from(value: Any) -> EnvironmentConfig | None:
    """An EnvironmentConfig from a rendered value. Raises InvalidSpecError."""
    if value is None or isinstance(value, EnvironmentConfig):
        return value
    given = _mapping("environment", value)
    _refuse_unknown("environment", given, {each.name for each in fields(EnvironmentConfig)} - {"secrets"})
    given = _coerced("environment", given)
    return EnvironmentConfig(**given)


def _spec_to_plain(spec: Any) -> dict[str, Any]:
    plain = {}
    for each in fields(spec):
        value = getattr(spec, each.name)
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        if value != default and each.repr:
            plain[each.name] = _plain_value(value)
    return plain


def _plain_value(value: Any) -> Any:
    if isinstance(value, CpuConfig | GpuConfig | TpuConfig):
        return {"kind": value.kind, **_spec_to_plain(value)}
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _device_from(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    given = dict(value)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in _DEVICES:
        raise InvalidSpecError(
            "resource_config", [f"device kind {kind!r} is unknown; choose from {', '.join(_DEVICES)}"]
        )
    _refuse_unknown("resource_config", given, {each.name for each in fields(_DEVICES[kind])})
    return _built(_DEVICES[kind], **_coerced("resource_config", given))


def _built[T](build: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """A missing or unsuitable argument, which Python tells as a TypeError, is a fault of the spec."""
    try:
        return build(*args, **kwargs)
    except TypeError as error:
        raise InvalidSpecError("resource_config", [str(error)]) from None


def _mapping(what: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value).__name__
    raise InvalidSpecError(
        what, [f"{kind} {str(value)[:80]!r} is not a spec; give a spec object, a dict or JSON of one"]
    )


def _refuse_unknown(what: str, given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(given.keys() - known, key=str):
        raise InvalidSpecError(
            what, [f"{name!r} is not a field; fields are {', '.join(sorted(known))}" for name in unknown]
        )


def _refuse_together(given: Mapping[str, Any], one: str, others: Sequence[str]) -> None:
    if both := [name for name in others if name in given]:
        raise InvalidSpecError(
            "resource_config", [f"{one!r} and {name!r} are both given; one decides" for name in both]
        )


def _coerced(what: str, given: dict[str, Any]) -> dict[str, Any]:
    faults: list[str] = []
    coerced = {name: _coerce(name, value, faults) for name, value in given.items()}
    if faults:
        raise InvalidSpecError(what, faults)
    return coerced


def _coerce(name: str, value: Any, faults: list[str]) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text == "None" and name in _OPTIONAL:
        return None
    try:
        if name in _INTEGERS:
            return int(text)
        if name in _NUMBERS:
            return float(text)
        if name in _FLAGS:
            return {"true": True, "false": False}[text.lower()]
        if name in _LISTS:
            return (
                json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",") if part.strip()]
            )
    except (ValueError, KeyError):
        kind = "true or false" if name in _FLAGS else "a list" if name in _LISTS else "a number"
        faults.append(f"{name}={value!r} is not {kind}")
        return value
    return value
