"""Carriers over Connect: unary calls as HTTP/1.1 POSTs with binary protobuf, which today's controller answers.

Facts of the protocol: connectrpc.com/docs/protocol. The controller's port belongs to a proxy that has error bodies of
its own, so every answer is classified from status, content type and body together.
"""

from __future__ import annotations

import json
import ssl
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from fray_airflow.iris.calls import LOG_PROXY, LOG_SERVICE
from fray_airflow.iris.carriers import MAX_MESSAGE_BYTES, Metadata
from fray_airflow.iris.failure import WireFailure
from fray_airflow.iris.target import Target

_PROTO = "application/proto"
_HEADERS = {
    "content-type": _PROTO,
    "connect-protocol-version": "1",
    "accept-encoding": "gzip, identity",
    "user-agent": "fray-airflow",
}
_CODE_OF_STATUS = {
    400: "internal",
    401: "unauthenticated",
    403: "permission_denied",
    404: "unimplemented",
    408: "deadline_exceeded",
    413: "resource_exhausted",
    429: "unavailable",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}
_LONGEST_TEXT = 300


class ConnectCarrier:
    """One pool of kept-alive connections."""

    def __init__(self, target: Target, ca: bytes | None = None) -> None:
        self._target = target
        self._client = httpx.Client(base_url=target.url, verify=_verify(target, ca), trust_env=False)
        # Workers keep their client for the life of the process: nobody closes it, so it closes itself.
        weakref.finalize(self, self._client.close)

    def unary(self, path: str, request: bytes, metadata: Metadata, deadline: float) -> bytes:
        body = _Body(deadline)
        sending = self._client.stream(
            "POST", proxied(path), content=request, headers=_headers(metadata, deadline), timeout=deadline
        )
        with _failures(self._target), sending as response:
            for chunk in response.iter_bytes():
                body.add(chunk)
            return read_reply(response, bytes(body.content), self._target)

    def close(self) -> None:
        self._client.close()


class AsyncConnectCarrier:
    """The same on the running event loop."""

    def __init__(self, target: Target, ca: bytes | None = None) -> None:
        self._target = target
        self._client = httpx.AsyncClient(base_url=target.url, verify=_verify(target, ca), trust_env=False)

    async def unary(self, path: str, request: bytes, metadata: Metadata, deadline: float) -> bytes:
        body = _Body(deadline)
        sending = self._client.stream(
            "POST", proxied(path), content=request, headers=_headers(metadata, deadline), timeout=deadline
        )
        with _failures(self._target):
            async with sending as response:
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
                return read_reply(response, bytes(body.content), self._target)

    async def close(self) -> None:
        await self._client.aclose()


class _Body:
    """An answer as it comes in. A timeout of httpx is of one read only, and a slow server may need many."""

    def __init__(self, deadline: float) -> None:
        self.content = bytearray()
        self._end = time.monotonic() + deadline

    def add(self, chunk: bytes) -> None:
        self.content += chunk
        if len(self.content) > MAX_MESSAGE_BYTES:
            raise WireFailure("resource_exhausted", f"an answer above {MAX_MESSAGE_BYTES // 1024**2} MiB")
        if time.monotonic() > self._end:
            raise WireFailure("deadline_exceeded", "no whole answer in time")


def proxied(path: str) -> str:
    """Where the controller's port has a method: the log service is a process of its own behind a proxy path."""
    return LOG_PROXY + path if path.startswith(LOG_SERVICE) else path


def read_reply(response: httpx.Response, body: bytes, target: Target) -> bytes:
    """The protobuf bytes of a good answer; WireFailure for every other."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code == 200 and kind == _PROTO:
        return body
    if response.status_code == 200:
        raise WireFailure("unknown", f"an answer of type {kind or 'none'}: {_text(body)}", _not_iris(target))
    if 300 <= response.status_code < 400:
        where = response.headers.get("location", "elsewhere")
        raise WireFailure("unknown", f"HTTP {response.status_code} to {where.partition('?')[0]}", _not_iris(target))
    raise _refusal(response.status_code, body, target)


def _refusal(status: int, body: bytes, target: Target) -> WireFailure:
    answer = _json(body)
    code, message = answer.get("code"), answer.get("message")
    if isinstance(code, str):
        return WireFailure(code, message if isinstance(message, str) else "")
    text = answer.get("error") if isinstance(answer.get("error"), str) else _text(body)
    # A method that the server does not have is an empty 404; with a page around it, this is some other server.
    hint = _not_iris(target) if status == 404 or "<html" in str(text).lower() else ""
    return WireFailure(_CODE_OF_STATUS.get(status, "unknown"), f"HTTP {status} {text}".strip(), hint)


@contextmanager
def _failures(target: Target) -> Iterator[None]:
    """What goes wrong below HTTP, as WireFailure."""
    try:
        yield
    except httpx.TimeoutException as error:
        what = "no connection in time" if isinstance(error, httpx.ConnectTimeout) else "no answer in time"
        raise WireFailure("deadline_exceeded", what) from None
    except httpx.RemoteProtocolError as error:
        hint = ""
        if "illegal" in str(error) or "unexpected" in str(error).lower():
            hint = "If this port speaks gRPC: set transport=grpc, or write the host as grpc://."
        raise WireFailure("unavailable", str(error), hint) from None
    except httpx.HTTPError as error:
        raise WireFailure("unavailable", str(error) or type(error).__name__) from None


def _headers(metadata: Metadata, deadline: float) -> list[tuple[str, str]]:
    # Ten digits are the most that the protocol allows.
    milliseconds = min(max(1, round(deadline * 1000)), 9_999_999_999)
    return [*_HEADERS.items(), ("connect-timeout-ms", str(milliseconds)), *metadata]


def _verify(target: Target, ca: bytes | None) -> ssl.SSLContext | bool:
    if not target.tls:
        return False
    return ssl.create_default_context(cadata=ca.decode() if ca else None)


def _not_iris(target: Target) -> str:
    return f"Is {target.authority} the Iris controller? Something else seems to answer there."


def _json(body: bytes) -> dict[str, object]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _text(body: bytes) -> str:
    # Whatever character set the header names: some of Python's are no character sets.
    text = " ".join(body.decode(errors="replace").split())
    return text[:_LONGEST_TEXT] + ("..." if len(text) > _LONGEST_TEXT else "")
