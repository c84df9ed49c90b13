"""The embedded Iris over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from google.protobuf import any_pb2

from .cluster import LocalCluster
from .wire_error import WireError

HANDLER_THREADS = 64
"""As many as Iris has: that many blocking launches keep everybody else waiting."""

MAX_MESSAGE_BYTES = 64 * 1024 * 1024

_STATUS = {code.value[1].replace(" ", "_"): code for code in grpc.StatusCode}
_STATUS["canceled"] = grpc.StatusCode.CANCELLED


class GrpcServer:
    """Loopback only unless told otherwise; `port` 0 takes a free one."""

    def __init__(self, cluster: LocalCluster, host: str, port: int) -> None:
        self._pool = futures.ThreadPoolExecutor(HANDLER_THREADS, thread_name_prefix="local-iris-grpc")
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
        ]
        self._server = grpc.server(self._pool, handlers=_handlers(cluster), options=options)
        self.port = self._server.add_insecure_port(f"{host}:{port}")

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=None).wait()
        self._pool.shutdown(wait=True)


def _handlers(cluster: LocalCluster) -> list[Any]:
    """One handler per service; a path that none of them knows gets UNIMPLEMENTED from grpc itself."""
    services: dict[str, dict[str, Any]] = {}
    for path in cluster.paths():
        service, _, method = path.removeprefix("/").rpartition("/")
        services.setdefault(service, {})[method] = grpc.unary_unary_rpc_method_handler(_unary(cluster, path))
    return [grpc.method_handlers_generic_handler(service, methods) for service, methods in services.items()]


def _unary(cluster: LocalCluster, path: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def unary(request: bytes, context: grpc.ServicerContext) -> bytes:
        metadata = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
        try:
            return cluster.handle(path, request, metadata)
        except WireError as error:
            if error.details is not None:
                context.set_trailing_metadata((("grpc-status-details-bin", status_details(error)),))
            context.abort(_STATUS[error.code], error.message)

    return unary


def status_details(error: WireError) -> bytes:
    """A google.rpc.Status, written by hand: its module would be one more dependency for three fields."""
    packed = any_pb2.Any()
    if error.details is not None:
        packed.Pack(error.details)
    code: int = _STATUS[error.code].value[0]
    fields = {b"\x12": error.message.encode(), b"\x1a": packed.SerializeToString()}
    return b"\x08" + _varint(code) + b"".join(_field(tag, content) for tag, content in fields.items())


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
