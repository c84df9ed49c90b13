"""Carriers over gRPC."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio

from fray_airflow.iris.carriers import MAX_MESSAGE_BYTES, Metadata
from fray_airflow.iris.failure import WireFailure
from fray_airflow.iris.target import Target

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A controller that comes back after an outage is found within seconds instead of two minutes.
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0),
)
_CONNECT_TELLTALES = (
    "http2 header with status: 400",
    "Failed parsing HTTP/2",
    "Trying to connect an http1.x server",  # grpcio 1.66
)


class GrpcCarrier:
    """One channel, made on first use and kept."""

    def __init__(self, target: Target, ca: bytes | None = None) -> None:
        if target.tls:
            credentials = grpc.ssl_channel_credentials(root_certificates=ca)
            self._channel = grpc.secure_channel(target.authority, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target.authority, options=_OPTIONS)

    def unary(self, path: str, request: bytes, metadata: Metadata, deadline: float) -> bytes:
        try:
            reply: bytes = self._channel.unary_unary(path, None, None)(
                request, timeout=deadline, metadata=tuple(metadata)
            )
        except grpc.RpcError as error:
            raise failure_of(error) from None
        return reply

    def close(self) -> None:
        self._channel.close()


class AsyncGrpcCarrier:
    """The same on the running event loop."""

    def __init__(self, target: Target, ca: bytes | None = None) -> None:
        if target.tls:
            credentials = grpc.ssl_channel_credentials(root_certificates=ca)
            self._channel = grpc.aio.secure_channel(target.authority, credentials, options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(target.authority, options=_OPTIONS)

    async def unary(self, path: str, request: bytes, metadata: Metadata, deadline: float) -> bytes:
        try:
            reply: bytes = await self._channel.unary_unary(path, None, None)(
                request, timeout=deadline, metadata=tuple(metadata)
            )
        except grpc.RpcError as error:
            raise failure_of(error) from None
        return reply

    async def close(self) -> None:
        await self._channel.close(None)


def failure_of(error: Any) -> WireFailure:
    """`error` is what grpc raises, sync or async; both tell code and details."""
    code = error.code().name.lower().replace("cancelled", "canceled")
    message = error.details() or ""
    hint = ""
    if _shows_connect(message):
        hint = "This port speaks Connect, not gRPC: set transport=connect, or write the host as http://."
    return WireFailure(code, message, hint)


def speaks_connect(failure: WireFailure) -> bool:
    """Whether this answer to gRPC is how a Connect server shows itself."""
    return _shows_connect(failure.message)


def _shows_connect(message: str) -> bool:
    return any(telltale in message for telltale in _CONNECT_TELLTALES)
