"""gRPC over real sockets, and finding out what a port speaks."""

from __future__ import annotations

import logging
import threading
import time
import traceback

import grpc
import pytest
from both_clients import MODES, once, run
from wire_servers import FakeIris, GrpcServer, HttpServer, http

from fray_airflow.errors import IrisAuthError, IrisError, IrisUnavailableError
from fray_airflow.iris import operations
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller

TOKEN = "hunter2"
CODES = {code.name.lower().replace("cancelled", "canceled"): code for code in grpc.StatusCode if code.name != "OK"}
in_both_modes = pytest.mark.parametrize("mode", MODES)


def answer(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
    """Does what the name of the job says."""
    if method == "GetCurrentUser":
        return job_pb2.GetCurrentUserResponse(user_id="me", role="user").SerializeToString()
    job_id = Controller.GetJobStatusRequest.FromString(request).job_id
    wish = job_id.rpartition("/")[2]
    reply = Controller.GetJobStatusResponse()
    reply.job.job_id = job_id
    if wish in CODES:
        context.abort(CODES[wish], "ünlucky")
    if wish == "hang":
        given_up = threading.Event()
        context.add_callback(given_up.set)
        given_up.wait(10)
    if wish == "headers":
        reply.job.error = str(sorted(context.invocation_metadata()))
    return {"truncated": reply.SerializeToString()[:-3], "garbage": b"\xff" * 20, "empty": b""}.get(
        wish, reply.SerializeToString()
    )


@pytest.fixture(scope="module")
def server():
    with GrpcServer(answer) as running:
        yield running


def status(name: str):
    return once(operations.job_status(f"/me/{name}"))


@in_both_modes
@pytest.mark.parametrize("code", CODES)
def test_every_status_is_an_error_of_that_code(mode, code, server):
    with pytest.raises(IrisError, match=f"{code}: ünlucky") as caught:
        run(mode, f"grpc://{server.authority}", status(code), token=TOKEN)
    assert (caught.value.code, caught.value.job_id) == (code, f"/me/{code}")
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


@in_both_modes
@pytest.mark.parametrize("kind", ["truncated", "garbage", "empty"])
def test_a_reply_that_cannot_be_read_is_unavailable(mode, kind, server):
    with pytest.raises(IrisUnavailableError, match="cannot be read"):
        run(mode, f"grpc://{server.authority}", status(kind))


@in_both_modes
def test_a_server_that_hangs_is_left_at_the_deadline(mode, server):
    started = time.monotonic()
    with pytest.raises(IrisUnavailableError, match="deadline_exceeded"):
        run(mode, f"grpc://{server.authority}", status("hang"), timeout=0.3)
    assert 0.25 < time.monotonic() - started < 5


@in_both_modes
def test_a_good_reply_is_read_and_headers_are_sent(mode, server):
    (reply,) = run(mode, f"grpc://{server.authority}", status("headers"), token=TOKEN, headers={"X-Tenant": "a"})
    assert reply.job_id == "/me/headers"
    assert TOKEN in reply.error
    assert "x-tenant" in reply.error


@in_both_modes
def test_a_port_that_nobody_listens_on_is_unavailable(mode):
    with HttpServer(lambda _: None) as gone:
        authority = gone.authority
    started = time.monotonic()
    with pytest.raises(IrisUnavailableError, match="did not answer"):
        run(mode, f"grpc://{authority}", status("x"), token=TOKEN)
    assert time.monotonic() - started < 5


@in_both_modes
def test_grpc_to_a_port_that_speaks_connect_is_told_what_to_write(mode):
    with HttpServer(FakeIris().over_http) as connect, pytest.raises(IrisUnavailableError) as caught:
        run(mode, f"grpc://{connect.authority}", status("x"), timeout=5)
    assert "This port speaks Connect, not gRPC: set transport=connect, or write the host as http://." in str(
        caught.value
    )
    assert not connect.requests


@in_both_modes
def test_connect_to_a_port_that_speaks_grpc_is_told_what_to_write(mode, server):
    with pytest.raises(IrisUnavailableError) as caught:
        run(mode, f"http://{server.authority}", status("x"), timeout=5)
    assert "set transport=grpc, or write the host as grpc://." in str(caught.value)


@in_both_modes
def test_tls_to_a_plain_port_is_unavailable(mode, server):
    with pytest.raises(IrisUnavailableError):
        run(mode, f"grpcs://{server.authority}", status("x"), timeout=5)


@in_both_modes
def test_a_bare_host_that_speaks_connect_is_found_out_once_and_logged_once(mode, caplog):
    caplog.set_level(logging.INFO, "fray_airflow")
    iris = FakeIris()
    with HttpServer(iris.over_http) as connect:
        run(mode, connect.authority, operations.whoami(), token=TOKEN)
        # However often gRPC knocked to find out, the second client knows the way.
        knocked = connect.connections
        (me,) = run(mode, connect.authority, operations.whoami(), token=TOKEN)
        assert me.user_id == "anonymous"
        assert [request.method for request in connect.requests] == ["GetCurrentUser"] * 2
        assert connect.connections == knocked + 1
    said = [record.getMessage() for record in caplog.records if "speaks" in record.getMessage()]
    assert said == [f"Iris at {connect.authority} speaks Connect"]


@in_both_modes
def test_a_bare_host_that_speaks_grpc_is_found_out_once_and_logged_once(mode, caplog):
    caplog.set_level(logging.INFO, "fray_airflow")
    asked = []

    def count(method, request, context):
        asked.append(method)
        return answer(method, request, context)

    with GrpcServer(count) as running:
        for _ in range(2):
            run(mode, running.authority, status("x"), transport="auto")
    assert asked == ["GetCurrentUser", "GetJobStatus", "GetJobStatus"]
    assert [record.getMessage() for record in caplog.records] == [f"Iris at {running.authority} speaks gRPC"]


@in_both_modes
def test_a_refusal_over_grpc_shows_that_grpc_is_spoken(mode):
    def refuse(_method, _request, context):
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")

    with GrpcServer(refuse) as running, pytest.raises(IrisAuthError, match="who are you"):
        run(mode, running.authority, status("x"))


@in_both_modes
def test_a_bare_host_that_is_away_is_unavailable_and_nothing_is_learnt(mode):
    with HttpServer(lambda _: http(200)) as gone:
        authority = gone.authority
    for _ in range(2):
        with pytest.raises(IrisUnavailableError):
            run(mode, authority, status("x"))


@in_both_modes
def test_no_job_is_ever_launched_to_find_out(mode):
    iris = FakeIris()
    with HttpServer(iris.over_http) as connect:
        run(mode, connect.authority, operations.launch(Controller.LaunchJobRequest(name="/me/job", replicas=1)))
    assert iris.launches == 1
