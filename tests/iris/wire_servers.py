"""Servers on loopback that answer with whatever bytes a test wants, from the standard library and grpc alone."""

from __future__ import annotations

import json
import re
import socket
import socketserver
import threading
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Self

import grpc

from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller

PROTO = "application/proto"


@dataclass
class Request:
    """One HTTP request, and the connection for answers that are more than bytes."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: socket.socket
    closing: threading.Event

    @property
    def method(self) -> str:
        return self.path.rpartition("/")[2]


Answer = Callable[[Request], bytes | None]


def http(
    status: int,
    body: bytes | str | dict[str, Any] = b"",
    kind: str = PROTO,
    *,
    length: int | None = None,
    **headers: str,
) -> bytes:
    """An answer with a status line, headers and a body; a dict is JSON."""
    if isinstance(body, dict):
        body, kind = json.dumps(body), "application/json"
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Because", f"content-length: {len(content) if length is None else length}"]
    lines += [f"content-type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


class HttpServer(socketserver.ThreadingTCPServer):
    """HTTP/1.1 with kept connections. An answer of None closes the connection instead."""

    daemon_threads = True
    # Threads end with their connections, which their clients close.
    block_on_close = False

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[Request] = []
        self.connections = 0
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}"


class _Handler(socketserver.StreamRequestHandler):
    server: HttpServer

    def handle(self) -> None:
        self.server.connections += 1
        try:
            while self._one():
                pass
        except OSError:
            # The client is gone.
            return

    def _one(self) -> bool:
        words = self.rfile.readline().split()
        if len(words) != 3:
            return False
        if words[2] != b"HTTP/1.1":
            # The preface of HTTP/2.
            self.wfile.write(http(400, {"error": "invalid private controller URI: invalid authority"}))
            return False
        headers = {}
        while line := self.rfile.readline().strip().decode("latin1"):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Request(words[1].decode(), headers, body, self.connection, self.server.closing)
        self.server.requests.append(request)
        answer = self.server.answer(request)
        if answer is not None:
            self.wfile.write(answer)
        return answer is not None


@dataclass
class FakeIris:
    """Just enough of a controller to submit to: it stores jobs and loses as many replies as it is told to."""

    lose: int = 0
    lost_reply: Callable[[], bytes | None] = lambda: None
    echo: dict[str, str] | None = None
    jobs: dict[str, Controller.LaunchJobRequest] = field(default_factory=dict)
    launches: int = 0

    def reply(self, method: str, request: bytes) -> bytes:
        """The reply as protobuf. Raises WireError, or Lost where the reply does not arrive."""
        if method == "GetCurrentUser":
            return job_pb2.GetCurrentUserResponse(user_id="anonymous", role="admin").SerializeToString()
        if method == "LaunchJob":
            return self._launch(Controller.LaunchJobRequest.FromString(request))
        if method == "GetJobStatus":
            return self._status(Controller.GetJobStatusRequest.FromString(request).job_id)
        raise WireError("unimplemented", method)

    def _launch(self, request: Controller.LaunchJobRequest) -> bytes:
        self.launches += 1
        if request.name in self.jobs:
            raise WireError("already_exists", f"Job {request.name} already exists (state=JOB_STATE_PENDING)")
        self.jobs[request.name] = request
        if self.lose:
            self.lose -= 1
            raise Lost
        return Controller.LaunchJobResponse(job_id=request.name).SerializeToString()

    def _status(self, job_id: str) -> bytes:
        if job_id not in self.jobs:
            raise WireError("not_found", f"Job {job_id} not found")
        reply = Controller.GetJobStatusResponse(request=self.jobs[job_id])
        reply.job.job_id, reply.job.state = job_id, job_pb2.JOB_STATE_PENDING
        for name, value in self.jobs[job_id].environment.env_vars.items():
            # What looks like a key is not shown, whatever its variable is called.
            reply.request.environment.env_vars[name] = "[REDACTED]" if re.search(r"[\w+/-]{24}", value) else value
        if self.echo is not None:
            reply.request.environment.env_vars.update(self.echo)
        return reply.SerializeToString()

    def over_http(self, request: Request) -> bytes | None:
        try:
            return http(200, self.reply(request.method, request.body))
        except WireError as error:
            return http(409, {"code": error.code, "message": error.message})
        except Lost:
            return self.lost_reply()


@dataclass
class WireError(Exception):
    code: str
    message: str


class Lost(Exception):
    """The reply does not arrive."""


class GrpcServer(grpc.GenericRpcHandler):
    """gRPC with one function for all methods: (method, request, context) -> reply."""

    def __init__(self, answer: Callable[[str, bytes, grpc.ServicerContext], bytes]) -> None:
        self._answer = answer
        self._pool = futures.ThreadPoolExecutor(4)
        self._server = grpc.server(self._pool, handlers=[self])
        self.authority = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self.closing = threading.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        method = details.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._answer(method, request, context))

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.stop(0).wait()
        self._pool.shutdown()
