"""The embedded Iris over Connect unary, HTTP/1.1: what today's real controller speaks."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import socket
import socketserver
import sys
import threading
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from . import http2
from .cluster import CONTROLLER, ENDPOINTS, LOG_PROXY, LocalCluster
from .wire_error import HTTP_STATUS, WireError

_PROTO, _JSON = "application/proto", "application/json"
_GRPC = "application/grpc"
_NO_TRAILERS = (
    "ASGI server does not support ASGI trailers extension but protocol for content-type 'application/grpc' "
    "requires trailers"
)
_ENCODINGS: dict[str, Callable[[bytes], bytes]] = {"identity": bytes, "": bytes, "gzip": gzip.decompress}


class ConnectServer(ThreadingHTTPServer):
    """Remembers its connections, because clients keep them open and their threads have to end with the server."""

    daemon_threads = False
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, cluster: LocalCluster, host: str, port: int) -> None:
        super().__init__((host, port), _Handler)
        self.cluster = cluster
        self.port: int = self.server_address[1]
        self._connections: set[socket.socket] = set()
        self._connections_lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="local-iris-connect", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.shutdown()
        with self._connections_lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._connections_lock:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._connections_lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news; anything else is a bug here, and is printed."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service who we are, which can take seconds on a laptop without network.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    server: ConnectServer
    raw_requestline: bytes
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def finish(self) -> None:
        # A client that hung up makes the last flush fail, and the base class then leaves the socket open.
        with contextlib.suppress(OSError):
            super().finish()
        self.rfile.close()

    def parse_request(self) -> bool:
        if self.raw_requestline.startswith(http2.PREFACE_LINE):
            self.close_connection = True
            http2.refuse_all(self.rfile, self.wfile)
            return False
        return super().parse_request()

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send_json(200, {"status": "ok", "database": "ok", "checkpoint_epoch_ms": 0})
        elif self.server.cluster.knows(self.path):
            self._send(405, b"", Allow="POST")
        else:
            self._send(404, b"Not Found", content_type="text/plain")

    def do_POST(self) -> None:
        if self.headers.get("content-length") is None:
            self.close_connection = True
            self._send(411, b"")
            return
        body = self.rfile.read(int(self.headers["content-length"]))
        cluster = self.server.cluster
        if not cluster.knows(self.path):
            self._send_unknown_path()
            return
        try:
            # The gatekeeper in front of Iris looks at the credential before anything else.
            cluster.access.authenticate(self._metadata())
            if self.path.startswith(LOG_PROXY) and not cluster.proxies():
                self._send_json(503, {"error": "endpoint registry unavailable"})
                return
            self._call(body)
        except WireError as error:
            self._send_error(error)

    def log_message(self, format: str, *args: object) -> None:
        """Silent: the tests' output is not an access log."""

    def _call(self, body: bytes) -> None:
        content_type = (self.headers.get("content-type") or "").partition(";")[0].strip().lower()
        if content_type == _GRPC:
            raise WireError("unknown", _NO_TRAILERS)
        if content_type not in (_PROTO, _JSON):
            self._send(415, b"", Accept_Post=f"{_JSON}, {_PROTO}")
            return
        self._check_protocol()
        content = self._decompressed(body)
        parse, dump = (_parse_json, _dump_json) if content_type == _JSON else (_parse_proto, _dump_proto)
        response = self.server.cluster.respond(self.path, lambda message: parse(content, message), self._metadata())
        self._send(200, dump(response), content_type=content_type, Content_Encoding="identity", Vary="Accept-Encoding")

    def _check_protocol(self) -> None:
        version = self.headers.get("connect-protocol-version")
        if version not in (None, "1"):
            raise WireError("invalid_argument", f"connect-protocol-version must be '1', got {version!r}")
        timeout = self.headers.get("connect-timeout-ms")
        if timeout is not None and not (timeout.isdigit() and len(timeout) <= 10):
            raise WireError("invalid_argument", f"invalid connect-timeout-ms {timeout!r}")

    def _decompressed(self, body: bytes) -> bytes:
        encoding = (self.headers.get("content-encoding") or "").lower()
        if encoding not in _ENCODINGS:
            message = f"unknown compression: '{encoding}': supported encodings are gzip, identity"
            raise WireError("unimplemented", message)
        try:
            return _ENCODINGS[encoding](body)
        except (OSError, EOFError, zlib.error) as error:
            raise WireError("invalid_argument", f"cannot decompress: {error}") from error

    def _metadata(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}

    def _send_unknown_path(self) -> None:
        proxied = self.path.removeprefix("/proxy/")
        if proxied != self.path and not self.path.startswith(LOG_PROXY + "/"):
            self._send_json(404, {"error": f"No endpoint '{proxied.partition('/')[0]}'"})
        elif self.path.startswith((CONTROLLER, ENDPOINTS)):
            self._send(404, b"")
        else:
            self._send(404, b"Not Found", content_type="text/plain")

    def _send_error(self, error: WireError) -> None:
        if error.code == "unauthenticated":
            # The gatekeeper is not a Connect server, so its refusal does not look like one's.
            self._send_json(401, {"error": error.message})
            return
        self._send_json(HTTP_STATUS[error.code], error_body(error))

    def _send_json(self, status: int, body: dict[str, Any]) -> None:
        self._send(status, json.dumps(body).encode(), content_type=_JSON)

    def _send(self, status: int, body: bytes, content_type: str = "", **headers: str) -> None:
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def error_body(error: WireError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.details is not None:
        value = base64.b64encode(error.details.SerializeToString()).decode().rstrip("=")
        debug = json_format.MessageToDict(error.details)
        body["details"] = [{"type": error.details.DESCRIPTOR.full_name, "value": value, "debug": debug}]
    return body


def _parse_proto(content: bytes, message: Message) -> None:
    message.ParseFromString(content)


def _parse_json(content: bytes, message: Message) -> None:
    try:
        json_format.Parse(content, message)
    except json_format.ParseError as error:
        raise ValueError(str(error)) from error


def _dump_proto(message: Message) -> bytes:
    return message.SerializeToString()


def _dump_json(message: Message) -> bytes:
    return json.dumps(json_format.MessageToDict(message)).encode()
