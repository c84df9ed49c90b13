"""How to reach a controller and as whom: everything a client is told, checked once."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris.retry import DEFAULT_PATIENCE
from fray_airflow.iris.target import Target, parse_target
from fray_airflow.units import parse_duration

log = logging.getLogger(__name__)

_warned: set[str] = set()

_NAME = re.compile(r"[0-9a-z_.-]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?|")


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """`where` names the controller in messages. The token is in `headers`."""

    target: Target
    log_target: Target | None
    user: str
    headers: Headers
    ca: bytes | None
    timeout: float | None
    patience: float
    gpu_gang_level: str | None
    where: str


class Headers(tuple[tuple[str, str], ...]):
    """Request headers. They hold credentials and show none of them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Headers({', '.join(name for name, _ in self)})"

    def hidden(self, text: str) -> str:
        """`text` without their values: some servers repeat in an error what they were sent."""
        for _, value in self:
            text = text.replace(value.removeprefix("Bearer "), "***") if value else text
        return text


class ClientArguments(TypedDict, total=False):
    """What a client may be told beside its target.

    user: the first part of job ids, where the controller lets us choose (admins); "airflow".
    port: for a target without one.
    transport: "grpc", "connect", or "auto" to find out, the default for a target without scheme.
    token: sent as bearer. tls: for a target without scheme. ca: a PEM file, or the PEM text.
    headers: more headers, for a proxy in between.
    patience: seconds in which a call that is not answered is sent again, 4 times at most; 20, and 0 for never.
    timeout: seconds for one call; each call's own by default (30 s, LaunchJob 180 s).
    log_target: where the log service is, if not at the target.
    gpu_gang_level: see `resolve_coscheduling`.
    where: what messages call the controller.
    """

    user: str
    port: int | None
    transport: str | None
    token: str | None
    tls: bool | None
    ca: str | Path | None
    headers: Mapping[str, str] | None
    timeout: float | None
    patience: float
    log_target: str | None
    gpu_gang_level: str | None
    where: str | None


def client_options(target: str | Target | ClientOptions, **arguments: Unpack[ClientArguments]) -> ClientOptions:
    """Checks everything at once; options that were checked before are returned. Raises InvalidSpecError."""
    if isinstance(target, ClientOptions):
        return target
    user, timeout, log_target = arguments.get("user", "airflow"), arguments.get("timeout"), arguments.get("log_target")
    address = (
        target
        if isinstance(target, Target)
        else parse_target(
            target, port=arguments.get("port"), transport=arguments.get("transport"), tls=arguments.get("tls")
        )
    )
    if not user.strip() or "/" in user:
        raise InvalidSpecError("Iris client", [f'user={user!r} is not a user name; it may not hold "/"'])
    sent = [(name.lower(), value) for name, value in (arguments.get("headers") or {}).items()]
    if token := (arguments.get("token") or "").strip():
        sent.append(("authorization", f"Bearer {token}"))
    # What the transports would refuse, with the value in their message.
    if bad := [name for name, value in sent if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value)]:
        what = "has a line break, or another character that headers may not have, in it"
        raise InvalidSpecError("Iris client", [f"the header {name!r} {what}" for name in bad])
    if sent and not address.tls and not address.loopback:
        _warn_once(address)
    return ClientOptions(
        target=address,
        log_target=parse_target(log_target, transport="grpc") if log_target else None,
        user=user,
        headers=Headers(sent),
        ca=_pem(arguments.get("ca")),
        timeout=_seconds(timeout),
        patience=arguments.get("patience", DEFAULT_PATIENCE),
        gpu_gang_level=arguments.get("gpu_gang_level"),
        where=arguments.get("where") or f"Iris at {address}",
    )


def _seconds(timeout: float | None) -> float | None:
    try:
        return None if timeout is None else parse_duration(timeout).total_seconds()
    except ValueError as error:
        raise InvalidSpecError("Iris client", [f"timeout: {error}"]) from None


def _pem(ca: str | Path | None) -> bytes | None:
    if not ca:
        return None
    if isinstance(ca, str) and "-----BEGIN" in ca:
        # A one-line field of a form turns line breaks into the two characters of their escape.
        return _checked(ca.replace("\\n", "\n"), "the text")
    try:
        return _checked(Path(ca).read_text("ascii"), repr(str(ca)))
    except OSError as error:
        raise InvalidSpecError("Iris client", [f"ca={str(ca)!r} cannot be read ({error.strerror})"]) from error
    except UnicodeError:
        raise InvalidSpecError("Iris client", [f"ca={str(ca)!r} is not a PEM file"]) from None


def _checked(pem: str, what: str) -> bytes:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidSpecError("Iris client", [f"ca: {what} holds no certificates ({error})"]) from None
    return pem.encode()


def _warn_once(target: Target) -> None:
    if target.authority not in _warned:
        _warned.add(target.authority)
        log.warning("Credentials go to %s unencrypted. Use https:// or grpcs://, or a tunnel.", target)
