"""What an Airflow connection of type `iris` says: one parser for worker and triggerer.

host, port: the controller, with or without scheme (grpc, grpcs, http, https). login: the user. password: the token.
Extras: see EXTRAS. In the URI form every extra is text, so "false" is False and "30" is 30.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fray_airflow.errors import InvalidSpecError
from fray_airflow.gangs import level_fault
from fray_airflow.units import parse_duration


class Connection(Protocol):
    """The part of Airflow's connection that is read."""

    conn_id: str
    host: str | None
    port: int | None
    login: str | None
    password: str | None
    extra: str | None


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """`arguments` are the client's (ClientArguments); they hold the token and stay out of the repr.

    deployment: what tells this Airflow from others that share the Iris. dashboard_url: where people look at jobs.
    """

    conn_id: str
    host: str
    arguments: Mapping[str, Any] = field(repr=False)
    deployment: str | None = None
    dashboard_url: str | None = None

    @property
    def secrets(self) -> list[str]:
        """What must not be seen in logs."""
        headers = self.arguments.get("headers") or {}
        # Credentials are seen with their scheme and without.
        bare = [value.partition(" ")[2] for name, value in headers.items() if name.lower().endswith("authorization")]
        return [value for value in (self.arguments.get("token"), *headers.values(), *bare) if value]


def parse_connection(conn: Connection) -> ConnectionSettings:
    """Raises InvalidSpecError that names the connection and every fault, and shows no secret."""
    faults: list[str] = []
    extras = _extras(conn.extra, faults)
    if unknown := sorted(extras.keys() - EXTRAS.keys()):
        faults.extend(f"extra {name!r} is unknown; extras are {', '.join(EXTRAS)}" for name in unknown)
    values = {name: _parsed(name, extras[name], faults) for name in EXTRAS if extras.get(name) not in (None, "")}
    if not conn.host:
        faults.append("host is empty; give the address of the Iris controller")
    if faults:
        raise InvalidSpecError(f"Iris connection {conn.conn_id!r}", faults)
    return _settings(conn, values)


def _settings(conn: Connection, values: dict[str, Any]) -> ConnectionSettings:
    headers = dict(values.pop("headers", {}))
    if proxy := values.pop("proxy_authorization", None):
        headers["proxy-authorization"] = proxy if " " in proxy else f"Bearer {proxy}"
    deployment, dashboard_url = values.pop("deployment", None), values.pop("dashboard_url", None)
    address = f"{conn.host}:{conn.port}" if conn.port else f"{conn.host}"
    arguments = {
        **values,
        "port": conn.port,
        "user": conn.login or "airflow",
        "token": conn.password or None,
        "headers": headers,
        "where": f"Iris connection {conn.conn_id!r} ({address})",
    }
    return ConnectionSettings(
        conn_id=conn.conn_id,
        host=str(conn.host),
        arguments=arguments,
        deployment=deployment,
        dashboard_url=dashboard_url,
    )


def _extras(extra: str | None, faults: list[str]) -> dict[str, Any]:
    try:
        extras = json.loads(extra) if extra else {}
        # The URI form carries nested values as one JSON text under this name.
        nested = extras.pop("__extra__", None)
        extras.update(json.loads(nested) if isinstance(nested, str) else nested or {})
    except (ValueError, AttributeError, TypeError):
        faults.append("extra is not a JSON object")
        return {}
    return dict(extras)


def _parsed(name: str, value: Any, faults: list[str]) -> Any:
    try:
        return EXTRAS[name](value)
    except ValueError as error:
        faults.append(f"extra {name}: {error}")
        return None


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
        raise ValueError(f"{value!r} is not true or false")
    return text in ("true", "1", "yes", "on")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} is not text")
    return value.strip()


def _gang_level(value: Any) -> str:
    level = _text(value)
    if fault := level_fault(level):
        raise ValueError(fault)
    return level


def _seconds(value: Any) -> float:
    return parse_duration(value).total_seconds()


def _headers(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError("not a JSON object of header names and values") from None
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise ValueError("not an object of header names and values")
    return dict(value)


EXTRAS: dict[str, Callable[[Any], Any]] = {
    "transport": _text,
    "tls": _flag,
    "ca": _text,
    "timeout": _seconds,
    "log_target": _text,
    "headers": _headers,
    "proxy_authorization": _text,
    "gpu_gang_level": _gang_level,
    "deployment": _text,
    "dashboard_url": _text,
}
"""By name, what reads its value."""
