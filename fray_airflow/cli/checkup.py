"""The steps of `fray-airflow doctor`: each needs the ones before it, and the first that fails ends the check."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fray_airflow.errors import FrayError, IrisAuthError

if TYPE_CHECKING:
    from fray_airflow.iris import IrisClient
    from fray_airflow.iris.options import ClientOptions
    from fray_airflow.iris.target import Target

TIMEOUT = 5.0
"""Seconds for one step's answer: what takes longer is not well."""

SLOW_MS = 500
"""Above this, a look at a job costs more than the time between two looks should."""

_CALLS = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What one step found. `advice` says what to do about it."""

    step: str
    result: Literal["ok", "warning", "failed"]
    text: str
    advice: str = ""


class Ill(Exception):
    """Ends the check: what is wrong, and what to do."""

    def __init__(self, text: str, advice: str) -> None:
        super().__init__(text)
        self.advice = advice


class Checkup:
    """Of one controller. `findings` talks to it as it is iterated, once."""

    def __init__(self, options: ClientOptions, client: IrisClient) -> None:
        self._options = options
        self._client = client

    def findings(self) -> Iterator[Finding]:
        target = self._options.target
        steps: list[tuple[str, Callable[[], Finding | str]]] = [
            ("name resolves", lambda: _resolve(target)),
            ("port answers", lambda: _knock(target)),
            ("TLS", lambda: _shake_hands(target, self._options.ca)),
            ("transport", self._transport),
            ("who we are", self._whoami),
            ("latency", self._latency),
            ("server", self._server),
            ("log service", self._log_service),
            ("workers", self._workers),
        ]
        for name, look in steps:
            try:
                found = look()
            except Ill as ill:
                yield Finding(name, "failed", str(ill), ill.advice)
                return
            except FrayError as error:
                yield Finding(name, "failed", str(error), _advice(error))
                return
            yield found if isinstance(found, Finding) else Finding(name, "ok", found)

    def _transport(self) -> str:
        # One that says no has spoken to us; the next step tells.
        with contextlib.suppress(IrisAuthError):
            self._client.whoami()
        spoken = "gRPC" if self._client.transport() == "grpc" else "Connect"
        return f"{spoken}, {'as the address says' if self._options.target.transport != 'auto' else 'found out'}"

    def _whoami(self) -> Finding | str:
        me = self._client.whoami()
        role = me.role or "no role"
        if me.admin:
            return f"{me.user_id} ({role}); jobs are submitted as {self._options.user}"
        return f"{me.user_id} ({role}); jobs are submitted as {me.user_id}"

    def _latency(self) -> Finding | str:
        times = []
        for _ in range(_CALLS):
            started = time.perf_counter()
            self._client.whoami()
            times.append((time.perf_counter() - started) * 1000)
        text = f"{statistics.median(times):.0f} ms, the median of {_CALLS} calls"
        if statistics.median(times) <= SLOW_MS:
            return text
        return Finding(
            "latency", "warning", text, f"Above {SLOW_MS} ms: look at the network and at the controller's load."
        )

    def _server(self) -> str:
        """Iris tells no version over its API; its health page tells how it is."""
        if self._client.transport() != "connect":
            return "says no version over gRPC"
        import httpx

        target = self._options.target
        verify: ssl.SSLContext | bool = _context(self._options.ca) if target.tls else False
        with httpx.Client(verify=verify, trust_env=False, timeout=TIMEOUT) as http:
            try:
                answer = http.get(f"{target.url}/health", headers=list(self._options.headers))
                facts = answer.json()
            except (httpx.HTTPError, json.JSONDecodeError, UnicodeError):
                return "has no health page"
        if not isinstance(facts, dict):
            return "has no health page"
        shown = [f"{name} {facts[name]}" for name in ("status", "version", "git_hash") if facts.get(name)]
        return (
            f"health page: {', '.join(shown) or 'empty'}; says no version"
            if "version" not in facts
            else ", ".join(shown)
        )

    def _log_service(self) -> str:
        try:
            self._client.logs("/fray-airflow/doctor", max_lines=1)
        except FrayError as error:
            raise Ill(
                str(error),
                "If the log service has an address of its own, give it: the extra log_target, or --log-target.",
            ) from None
        return "readable"

    def _workers(self) -> Finding | str:
        workers = self._client.workers()
        kinds = Counter(str(each.attributes.get("device-variant") or "cpu") for each in workers if each.healthy)
        if kinds:
            ill = len(workers) - kinds.total()
            shown = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            return f"{shown}{f'; {ill} not healthy' if ill else ''}"
        groups = sorted(group.name for group in self._client.autoscaler().groups)
        if groups:
            advice = f"The autoscaler starts some when a job needs them; it has {', '.join(groups)}."
        else:
            advice = "Jobs will wait until there is one: look at the cluster's scale groups."
        return Finding("workers", "warning", "none is up", advice)


def _resolve(target: Target) -> str:
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Ill(
            f"{target.host} is not known ({error.strerror or error})",
            "Check the host's spelling, and whether this machine needs a VPN or another name server.",
        ) from None
    return f"{target.host} is {', '.join(sorted({str(each[4][0]) for each in found}))}"


def _knock(target: Target) -> str:
    try:
        with socket.create_connection((target.host, target.port), timeout=TIMEOUT):
            return f"port {target.port} is open"
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise Ill(
            f"nothing at {target.authority} ({why.lower()})",
            "Check that the controller runs, the port (10000 if none is given), and firewalls in between.",
        ) from None


def _shake_hands(target: Target, ca: bytes | None) -> str:
    if not target.tls:
        return "not used"
    context = _context(ca)
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        with (
            socket.create_connection((target.host, target.port), timeout=TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=target.host) as secure,
        ):
            certificate = secure.getpeercert() or {}
            return f"{secure.version()}, certificate valid until {certificate.get('notAfter')}"
    except ssl.SSLCertVerificationError as error:
        raise Ill(
            f"the certificate is not trusted ({error.verify_message})",
            "Give the certificates to trust: the connection's extra ca, or --ca.",
        ) from None
    except OSError as error:
        raise Ill(
            f"no TLS here ({getattr(error, 'reason', None) or error})",
            "If the controller speaks plain text on this port, write http:// or grpc://.",
        ) from None


def _context(ca: bytes | None) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca.decode() if ca else None)


def _advice(error: FrayError) -> str:
    if isinstance(error, IrisAuthError):
        return "Check the token: the connection's password, or FRAY_AIRFLOW_TOKEN with --target."
    return ""
