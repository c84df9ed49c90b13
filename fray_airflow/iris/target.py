"""Where a controller listens: one parser for what people write as its address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from fray_airflow.errors import InvalidSpecError

Transport = Literal["auto", "grpc", "connect"]

DEFAULT_PORT = 10_000
"""A controller's port unless its configuration says otherwise."""

TRANSPORTS: tuple[Transport, ...] = ("auto", "grpc", "connect")
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_PREFIX = re.compile(r"[!-~]*")
_SCHEMES: dict[str, tuple[Transport, bool]] = {
    "grpc": ("grpc", False),
    "grpcs": ("grpc", True),
    "http": ("connect", False),
    "https": ("connect", True),
}


@dataclass(frozen=True, slots=True)
class Target:
    """One address. `prefix` is a path in front of the methods, for a controller behind a proxy."""

    host: str
    port: int
    transport: Transport
    tls: bool = False
    prefix: str = ""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def loopback(self) -> bool:
        return self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        schemes = {"grpc": ("grpc", "grpcs"), "connect": ("http", "https"), "auto": ("", "")}
        scheme = schemes[self.transport][self.tls]
        return f"{scheme}://{self.authority}{self.prefix}" if scheme else f"{self.authority}{self.prefix}"


def parse_target(
    text: str, *, port: int | None = None, transport: str | None = None, tls: bool | None = None
) -> Target:
    """`text` is `host`, `host:port`, an IPv6 address, or a URL with scheme grpc, grpcs, http or https.

    The scheme decides transport and TLS; `port`, `transport` and `tls` fill in what it does not say, and may not
    contradict it. Raises InvalidSpecError.

    >>> str(parse_target("https://iris.example.com"))
    'https://iris.example.com:10000'
    >>> parse_target("::1").authority
    '[::1]:10000'
    """
    if not isinstance(text, str):
        raise InvalidSpecError("Iris address", [f"{text!r} is not a text"])
    if "@" in text:
        # Nothing in front of the last "@" may be shown: it holds a password.
        shown = text.rpartition("@")[2]
        raise InvalidSpecError("Iris address", [f"'***@{shown}' holds a user or password; give the address without"])
    scheme, _, rest = text.strip().rpartition("://")
    scheme = scheme.lower()
    faults = []
    if scheme and scheme not in _SCHEMES:
        faults.append(f"scheme {scheme!r} of {text!r} is unknown; use {', '.join(_SCHEMES)} or none")
    if transport is not None and transport not in TRANSPORTS:
        faults.append(f"transport={transport!r} is unknown; choose from {', '.join(TRANSPORTS)}")
    said_transport, said_tls = _SCHEMES.get(scheme, (transport or "auto", bool(tls)))
    if scheme in _SCHEMES and transport in ("grpc", "connect") and transport != said_transport:
        faults.append(f"transport={transport!r} contradicts the scheme {scheme}://, which means {said_transport}")
    if scheme in _SCHEMES and tls and not said_tls:
        faults.append(f"tls=True contradicts the scheme {scheme}://; write {scheme}s://")
    if re.fullmatch(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", rest):
        rest = f"[{rest}]"
    try:
        parts = urlsplit(f"//{rest}")
        host, said_port = parts.hostname, parts.port
    except ValueError as error:
        host, said_port = None, None
        faults.append(f"{text!r} is not an address ({error})")
    else:
        if not host or not (_HOST.fullmatch(host) or ":" in host):
            faults.append(f"{text!r} names no host; write host, host:port or a URL such as http://host:{DEFAULT_PORT}")
        if parts.query or parts.fragment or not _PREFIX.fullmatch(parts.path):
            faults.append(f"{text!r} has more behind the host than a path")
        elif parts.path.rstrip("/") and said_transport == "grpc":
            faults.append(f"{text!r} has a path, and gRPC has no place for one")
    number = said_port if said_port is not None else port or DEFAULT_PORT
    if not 0 < number < 65536:
        faults.append(f"port={number} is not a port")
    if faults:
        raise InvalidSpecError("Iris address", faults)
    return Target(host or "", number, said_transport, said_tls, parts.path.rstrip("/"))  # type: ignore[arg-type]  # checked above
