"""Connect over real sockets, against servers that answer well and badly."""

from __future__ import annotations

import gzip
import time
import traceback
from collections.abc import Callable

import pytest
from both_clients import MODES, once, run
from wire_servers import FakeIris, HttpServer, Request, http

from fray_airflow.errors import IrisAuthError, IrisError, IrisUnavailableError, JobNotFoundError
from fray_airflow.iris import operations
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.logs import LogCursor

TOKEN = "hunter2"
JOB = "/me/job"
STATUS = once(operations.job_status(JOB))
in_both_modes = pytest.mark.parametrize("mode", MODES)

REPLY = Controller.GetJobStatusResponse()
REPLY.job.job_id, REPLY.job.state = JOB, 3
GOOD = REPLY.SerializeToString()

STATUS_OF_CODE = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}


def hang(request: Request) -> None:
    request.closing.wait(10)


def hang_after_headers(request: Request) -> None:
    request.connection.sendall(http(200, GOOD, length=1000))
    request.closing.wait(10)


def drip(request: Request) -> None:
    """A byte now and then: no single read takes long."""
    request.connection.sendall(http(200, b"", length=100_000))
    while not request.closing.wait(0.05):
        request.connection.sendall(b"\0")


SLOW = (hang, hang_after_headers, drip)


def echo(request: Request) -> bytes:
    return http(500, f"<html>{request.headers}</html>", "text/html")


def sends(*pieces: bytes) -> Callable[[Request], None]:
    """Something that `http` does not make; the connection is closed behind it."""
    return lambda request: request.connection.sendall(b"".join(pieces))


# What a server does, and the error that it becomes.
BAD = {
    "401 of the proxy, no token": (http(401, {"error": "authentication required"}), IrisAuthError, "ion required"),
    "401 of the proxy, bad token": (http(401, {"error": "authentication failed"}), IrisAuthError, "Check the token"),
    "403 of a proxy": (http(403, "Forbidden", "text/plain"), IrisAuthError, "HTTP 403 Forbidden"),
    "404 of the proxy": (http(404, {"error": "No endpoint 'nope'"}), IrisError, "No endpoint 'nope'"),
    "404 without body": (http(404, b"", ""), IrisError, "Is 127.0.0.1:"),
    "404 page": (http(404, "<html>Not here</html>", "text/html"), IrisError, "Is 127.0.0.1:"),
    "502 page": (http(502, "<html><h1>Bad Gateway</h1></html>", "text/html"), IrisUnavailableError, "Bad Gateway"),
    "503 text": (http(503, "draining", "text/plain"), IrisUnavailableError, "HTTP 503 draining"),
    "413": (http(413, "", "text/plain"), IrisError, "HTTP 413"),
    "429": (http(429, "slow down", "text/plain"), IrisUnavailableError, "slow down"),
    "500 page": (http(500, "<html>oops</html>", "text/html"), IrisError, "oops"),
    "500 with a long text": (http(500, "x" * 10_000, "text/plain"), IrisError, "xxx..."),
    "200 page": (http(200, "<html>Welcome</html>", "text/html"), IrisError, "Is 127.0.0.1:"),
    "200 JSON": (http(200, {"job": {}}), IrisError, "an answer of type application/json"),
    "200 without a type": (http(200, b"", ""), IrisError, "an answer of type none"),
    "204": (http(204, b"", ""), IrisError, "HTTP 204"),
    "301": (http(301, b"", "", location=f"https://login.example.com/?next={TOKEN}"), IrisError, "https://login.example.com/"),
    "304": (http(304, b"", ""), IrisError, "HTTP 304"),
    "truncated protobuf": (http(200, GOOD[:-3]), IrisUnavailableError, "cannot be read"),
    "garbage as protobuf": (http(200, b"\xff" * 50), IrisUnavailableError, "cannot be read"),
    "empty protobuf": (http(200, b""), IrisUnavailableError, "no job in it"),
    "broken gzip": (http(200, b"not gzip", content_encoding="gzip"), IrisUnavailableError, ""),
    "JSON that is no object": (http(500, "[1, 2]", "application/json"), IrisError, "[1, 2]"),
    "JSON of a wrong shape": (http(400, {"code": 7, "message": ["x"]}), IrisError, "HTTP 400"),
    "JSON that is too deep": (http(500, "[" * 100_000, "application/json"), IrisError, "[[["),
    "no text at all": (http(500, b"\xff\xfe\x00", "text/plain"), IrisError, "HTTP 500"),
    "a character set that is none": (http(500, "oops", "text/plain; charset=zlib"), IrisError, "oops"),
    "another one": (http(500, "oops", "text/plain; charset=rot13"), IrisError, "oops"),
    "a code of tomorrow": (http(500, {"code": "too_hot", "message": "wait"}), IrisError, "too_hot: wait"),
    "the token in the answer": (echo, IrisError, "***"),
    "no answer": (hang, IrisUnavailableError, "no answer in time"),
    "half an answer": (hang_after_headers, IrisUnavailableError, "no answer in time"),
    "an answer that takes for ever": (drip, IrisUnavailableError, "no whole answer in time"),
    "connection closed at once": (lambda _: None, IrisUnavailableError, "disconnected"),
    "connection closed in the body": (sends(http(200, GOOD, length=1000)), IrisUnavailableError, ""),
    "garbage instead of HTTP": (sends(b"\x00\x00\x12\x04\x00 SSH-2.0\r\n\r\n"), IrisUnavailableError, "transport=grpc"),
    "no version": (sends(b"HELLO\r\n\r\n"), IrisUnavailableError, ""),
    "a header without end": (sends(b"HTTP/1.1 200 OK\r\nx: ", b"y" * 200_000), IrisUnavailableError, ""),
}  # fmt: skip


@in_both_modes
@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_a_typed_error_within_the_deadline_that_shows_no_token(mode, name):
    answer, cls, said = BAD[name]
    with HttpServer(answer if callable(answer) else lambda _: answer) as server:
        deadline = 0.3 if answer in SLOW else 30
        started = time.monotonic()
        with pytest.raises(IrisError) as caught:
            run(mode, server.url, STATUS, token=TOKEN, timeout=deadline)
        assert time.monotonic() - started < 5
        assert len(server.requests) == 1
    error = caught.value
    assert type(error) is cls
    assert error.job_id == JOB
    assert f"Iris at http://{server.authority}" in str(error)
    assert said in str(error)
    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert TOKEN not in "".join(traceback.format_exception(error)) + repr(error)


@in_both_modes
@pytest.mark.parametrize("code", STATUS_OF_CODE)
def test_the_code_of_a_connect_error_counts_whatever_the_http_status(mode, code):
    answer = http(STATUS_OF_CODE[code], {"code": code, "message": "it\nsays no", "details": []})
    with HttpServer(lambda _: answer) as server, pytest.raises(IrisError, match=f"{code}: it says no") as caught:
        run(mode, server.url, STATUS)
    assert caught.value.code == code


@in_both_modes
def test_a_job_that_nobody_knows_is_not_found(mode):
    with HttpServer(FakeIris().over_http) as server, pytest.raises(JobNotFoundError, match=r"/me/job not found"):
        run(mode, server.url, STATUS)


def compressed(request: Request) -> bytes:
    assert "gzip" in request.headers["accept-encoding"]
    return http(200, gzip.compress(GOOD), content_encoding="gzip")


def in_chunks(_: Request) -> bytes:
    head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nContent-Type: Application/Proto; x=y\r\n\r\n"
    return head.encode() + b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD) + b"0\r\n\r\n"


@in_both_modes
@pytest.mark.parametrize("answer", [lambda _: http(200, GOOD), compressed, in_chunks], ids=["plain", "gzip", "chunks"])
def test_a_good_answer_is_read_plain_compressed_and_in_chunks(mode, answer):
    with HttpServer(answer) as server:
        (status,) = run(mode, server.url, STATUS)
    assert (status.job_id, status.state.name) == (JOB, "RUNNING")


@in_both_modes
def test_a_request_is_a_post_of_protobuf_as_connect_has_it(mode):
    with HttpServer(lambda _: http(200, GOOD)) as server:
        run(mode, f"{server.url}/iris", STATUS, timeout=2, headers={"X-Tenant": "a"})
    (request,) = server.requests
    assert request.path == "/iris/iris.cluster.ControllerService/GetJobStatus"
    assert Controller.GetJobStatusRequest.FromString(request.body).job_id == JOB
    expected = {"content-type": "application/proto", "connect-protocol-version": "1", "connect-timeout-ms": "2000"}
    assert (expected | {"x-tenant": "a"}).items() <= request.headers.items()
    assert "authorization" not in request.headers


@in_both_modes
def test_logs_are_asked_for_behind_the_proxy_path(mode):
    with HttpServer(lambda _: http(200)) as server:
        (page,) = run(mode, server.url, operations.logs(LogCursor(JOB)))
    assert page.lines == ()
    assert server.requests[0].path == "/proxy/system.log-server/finelog.logging.LogService/FetchLogs"


@in_both_modes
def test_calls_share_one_kept_connection(mode):
    with HttpServer(lambda _: http(200, GOOD)) as server:
        run(mode, server.url, *[STATUS] * 5)
        assert (len(server.requests), server.connections) == (5, 1)


@in_both_modes
def test_a_kept_connection_that_was_closed_meanwhile_is_replaced(mode):
    with HttpServer(lambda request: http(200, GOOD) if len(server.requests) != 2 else None) as server:
        one, two = run(mode, server.url, *[operations.job_status(JOB)] * 2)
        assert one == two
        assert (len(server.requests), server.connections) == (3, 2)


@in_both_modes
def test_a_port_that_nobody_listens_on_is_unavailable(mode):
    with HttpServer(hang) as server:
        url = server.url
    with pytest.raises(IrisUnavailableError, match="did not answer GetJobStatus of /me/job: unavailable"):
        run(mode, url, STATUS)


@in_both_modes
def test_a_controller_that_stays_away_is_asked_four_times(mode):
    with HttpServer(lambda _: http(503, {"code": "unavailable", "message": "shutting down"})) as server:
        started = time.monotonic()
        with pytest.raises(IrisUnavailableError, match="shutting down"):
            run(mode, server.url, operations.job_status(JOB))
        assert time.monotonic() - started < 20
        assert len(server.requests) == 4


@in_both_modes
def test_an_answer_about_the_request_and_a_log_service_that_is_away_are_not_asked_again(mode):
    with HttpServer(lambda _: http(500, {"code": "internal", "message": "ValueError"})) as server:
        with pytest.raises(IrisError):
            run(mode, server.url, operations.job_status(JOB))
        assert len(server.requests) == 1
    with HttpServer(lambda _: http(503)) as server:
        with pytest.raises(IrisUnavailableError):
            run(mode, server.url, operations.logs(LogCursor(JOB)))
        assert len(server.requests) == 1


@in_both_modes
def test_a_certificate_that_is_not_trusted_or_no_tls_at_all_is_unavailable(mode):
    with HttpServer(hang) as server, pytest.raises(IrisUnavailableError):
        run(mode, f"https://{server.authority}", STATUS, token=TOKEN, timeout=2)
