"""The two servers: gRPC and Connect say the same, each in its own way."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import socket
import subprocess
import sys
import threading

import grpc
import pytest

from fray_airflow.iris._gen import controller_pb2, errors_pb2, job_pb2
from fray_airflow.local import Fleet, LocalIris, Outcome, Timing
from fray_airflow.local.wire_error import WireError

C = controller_pb2.Controller
SERVICE = "/iris.cluster.ControllerService/"


@pytest.fixture(scope="module")
def iris():
    with LocalIris(Fleet.of(cpu=1), run="script") as iris:
        yield iris


@pytest.fixture(scope="module")
def guarded():
    with LocalIris(Fleet.of(cpu=1), run="script", token="t0ken", user_id="carol") as iris:
        yield iris


@pytest.fixture
def channel(iris):
    with grpc.insecure_channel(iris.target.removeprefix("grpc://")) as channel:
        yield channel


def call(channel, method, request, metadata=None):
    unary = channel.unary_unary(SERVICE + method)
    return unary(request.SerializeToString(), metadata=metadata, timeout=10)


def post(iris, path, body=b"", headers=None, method="POST"):
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection(iris.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, body, {"content-type": "application/json"} | (headers or {}))
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def test_a_job_runs_over_grpc(iris, channel, job):
    iris.script("grpc", Outcome.succeed())
    assert C.LaunchJobResponse.FromString(call(channel, "LaunchJob", job("/a/grpc"))).job_id == "/a/grpc"
    states = {}
    while states.get("/a/grpc") != job_pb2.JOB_STATE_SUCCEEDED:
        reply = call(channel, "GetJobState", C.GetJobStateRequest(job_ids=["/a/grpc"]))
        states = C.GetJobStateResponse.FromString(reply).states
    assert iris.unused_script() == []
    assert iris.calls["LaunchJob"] >= 1


def test_a_grpc_refusal_has_code_and_message(channel):
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, "GetJobStatus", C.GetJobStatusRequest(job_id="/a/none"))
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "Job /a/none not found")


def test_a_grpc_internal_error_carries_details(channel, job):
    """As a client with the usual library for them reads them."""
    rpc_status = pytest.importorskip("grpc_status.rpc_status", reason="grpcio-status is not installed")
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, "LaunchJob", job("noslash"))
    status = rpc_status.from_call(caught.value)
    details = errors_pb2.ErrorDetails.FromString(status.details[0].value)
    assert (status.code, details.exception_type) == (13, "builtins.ValueError")
    assert status.details[0].type_url.endswith("/iris.rpc.ErrorDetails")
    assert status.message == caught.value.details()


def test_an_unknown_grpc_method_is_unimplemented(channel):
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, "Nope", C.GetJobStatusRequest())
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_bundle_of_25_mib_passes_through_grpc(channel, job):
    call(channel, "LaunchJob", job("/a/large", bundle_blob=bytes(25 * 1024 * 1024)))


@pytest.mark.parametrize("code", ["canceled", "resource_exhausted", "deadline_exceeded", "unavailable"])
def test_every_code_has_its_grpc_status(iris, channel, code):
    iris.fault("GetCurrentUser", code=code)
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, "GetCurrentUser", job_pb2.GetCurrentUserRequest())
    assert caught.value.code().name.replace("CANCELLED", "CANCELED") == code.upper()


def test_a_connect_call_in_proto_and_in_json(iris):
    status, headers, body = post(iris, SERVICE + "GetCurrentUser", headers={"content-type": "application/proto"})
    assert (status, headers["content-type"], headers["content-encoding"]) == (200, "application/proto", "identity")
    assert job_pb2.GetCurrentUserResponse.FromString(body).role == "admin"
    status, _, body = post(iris, SERVICE + "GetCurrentUser", b"{}", {"content-type": "application/json; charset=utf-8"})
    assert (status, body) == (200, b'{"userId": "anonymous", "role": "admin"}')


def test_json_output_shows_zeros_and_int64_as_text(iris):
    launch = {"name": "/a/js", "replicas": 1, "resources": {"cpu_millicores": 5, "memoryBytes": "1048576"}}
    assert post(iris, SERVICE + "LaunchJob", json.dumps(launch).encode())[2] == b'{"jobId": "/a/js"}'
    job = json.loads(post(iris, SERVICE + "GetJobStatus", b'{"jobId": "/a/js"}')[2])["job"]
    assert (job["exitCode"], job["resources"]["memoryBytes"], job["resources"]["device"]) == (0, "1048576", {})


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b'{"jobId": "/a/none"}', {}, 404, "not_found"),
        (b'{"jobId": "nope"}', {}, 500, "internal"),
        (b'{"unknownField": 1}', {}, 500, "unknown"),
        (b"{", {}, 500, "unknown"),
        (b"", {}, 500, "unknown"),
        (b"\xff\xff", {"content-type": "application/proto"}, 500, "unknown"),
        (b"{}", {"connect-protocol-version": "2"}, 400, "invalid_argument"),
        (b"{}", {"connect-timeout-ms": "12345678901"}, 400, "invalid_argument"),
        (b"{}", {"content-encoding": "br"}, 501, "unimplemented"),
        (b"{}", {"content-encoding": "gzip"}, 400, "invalid_argument"),
        (b"{}", {"content-type": "application/grpc"}, 500, "unknown"),
    ],
)
def test_a_connect_refusal_is_json_with_the_status_of_its_code(iris, body, headers, status, code):
    answer, _, text = post(iris, SERVICE + "GetJobStatus", body, headers)
    assert (answer, json.loads(text)["code"]) == (status, code)


def test_a_connect_internal_error_carries_details(iris):
    body = json.loads(post(iris, SERVICE + "LaunchJob", b'{"name": "noslash"}')[2])
    (detail,) = body["details"]
    assert detail["type"] == "iris.rpc.ErrorDetails"
    assert "=" not in detail["value"]
    decoded = errors_pb2.ErrorDetails.FromString(base64.b64decode(detail["value"] + "=="))
    assert decoded.exception_type == detail["debug"]["exceptionType"] == "builtins.ValueError"


def test_a_gzipped_request_is_understood(iris):
    body = gzip.compress(C.GetJobStatusRequest(job_id="/a/none").SerializeToString())
    headers = {"content-type": "application/proto", "content-encoding": "gzip", "connect-timeout-ms": "0"}
    assert post(iris, SERVICE + "GetJobStatus", body, headers)[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "body"),
    [
        ("GET", SERVICE + "GetCurrentUser", {}, 405, b""),
        ("POST", SERVICE + "GetCurrentUser", {"content-type": "application/connect+json"}, 415, b""),
        ("POST", SERVICE + "Nope", {}, 404, b""),
        ("POST", "/no.Service/Nope", {}, 404, b"Not Found"),
        ("POST", "/proxy/nope/x", {}, 404, b'{"error": "No endpoint \'nope\'"}'),
        ("GET", "/nothing", {}, 404, b"Not Found"),
    ],
)
def test_what_is_no_call_is_answered_in_plain_http(iris, method, path, headers, status, body):
    answer, _, text = post(iris, path, b"", headers, method)
    assert (answer, text) == (status, body)


def test_grpc_on_the_connect_port_meets_status_400(iris):
    """Which is how a client finds out that it has to speak Connect."""
    with grpc.insecure_channel(iris.url.removeprefix("http://")) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, "GetCurrentUser", job_pb2.GetCurrentUserRequest())
        assert caught.value.code() == grpc.StatusCode.INTERNAL
        assert "http2 header with status: 400" in caught.value.details()


def test_connect_on_the_grpc_port_gets_no_answer(iris):
    connection = http.client.HTTPConnection(iris.target.removeprefix("grpc://"), timeout=10)
    connection.request("POST", SERVICE + "GetCurrentUser", b"{}", {"content-type": "application/json"})
    with pytest.raises((http.client.HTTPException, OSError)):
        connection.getresponse()
    connection.close()


def test_a_body_without_length_is_refused(iris):
    host, port = iris.url.removeprefix("http://").split(":")
    head = f"POST {SERVICE}GetCurrentUser HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        # In one piece: the server may answer and close before a second one is sent.
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 411 ")


def test_health_is_readable(iris):
    status, _, body = post(iris, "/health", method="GET")
    assert (status, json.loads(body)["status"]) == (200, "ok")


def test_a_connection_serves_many_calls(iris):
    connection = http.client.HTTPConnection(iris.url.removeprefix("http://"), timeout=10)
    sockets = set()
    for _ in range(3):
        connection.request("POST", SERVICE + "GetCurrentUser", b"{}", {"content-type": "application/json"})
        connection.getresponse().read()
        sockets.add(connection.sock)
    connection.close()
    assert len(sockets) == 1


def test_the_connect_refusal_of_a_token_is_not_connect_shaped(guarded):
    """It comes from a gatekeeper before the server: no code, only a text."""
    status, _, body = post(guarded, SERVICE + "GetCurrentUser", b"{}")
    assert (status, json.loads(body)) == (401, {"error": "authentication required"})
    status, _, body = post(guarded, SERVICE + "GetCurrentUser", b"{}", {"Authorization": "Bearer nope"})
    assert (status, json.loads(body)) == (401, {"error": "authentication failed"})
    status, _, body = post(guarded, SERVICE + "GetCurrentUser", b"{}", {"Authorization": "Bearer t0ken"})
    assert (status, json.loads(body)) == (200, {"userId": "carol", "role": "user"})


def test_the_grpc_refusal_of_a_token_is_unauthenticated(guarded):
    with grpc.insecure_channel(guarded.target.removeprefix("grpc://")) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            call(channel, "GetCurrentUser", job_pb2.GetCurrentUserRequest())
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
        metadata = (("authorization", "Bearer t0ken"),)
        reply = call(channel, "GetCurrentUser", job_pb2.GetCurrentUserRequest(), metadata)
        assert job_pb2.GetCurrentUserResponse.FromString(reply).user_id == "carol"


def test_stopping_leaves_no_thread_behind_even_with_open_connections():
    before = set(threading.enumerate())
    with LocalIris(Fleet.of(cpu=1), run="script") as iris:
        kept = http.client.HTTPConnection(iris.url.removeprefix("http://"), timeout=10)
        kept.request("POST", SERVICE + "GetCurrentUser", b"{}", {"content-type": "application/json"})
        kept.getresponse().read()
        with grpc.insecure_channel(iris.target.removeprefix("grpc://")) as channel:
            call(channel, "GetCurrentUser", job_pb2.GetCurrentUserRequest())
    kept.close()
    left = {thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("local-iris")}
    assert left == set()
    iris.stop()


def test_a_launch_that_waits_for_a_drain_is_refused_when_the_server_stops(job):
    timing = Timing(drain_seconds=60)
    refused = []
    with LocalIris(Fleet.of(cpu=1), run="script", timing=timing) as iris:
        iris.script("j", Outcome.hang())
        iris.cluster.handle(SERVICE + "LaunchJob", job().SerializeToString())
        wait_until_running(iris)

        def replace():
            try:
                iris.cluster.handle(SERVICE + "LaunchJob", job(policy="RECREATE").SerializeToString())
            except WireError as error:
                refused.append(error.code)

        replacing = threading.Thread(target=replace)
        replacing.start()
    replacing.join(10)
    assert refused == ["unavailable"]


def wait_until_running(iris):
    state = 0
    while state != job_pb2.TASK_STATE_RUNNING:
        reply = iris.cluster.handle(SERVICE + "ListTasks", C.ListTasksRequest(job_id="/a/j").SerializeToString())
        state = C.ListTasksResponse.FromString(reply).tasks[0].state


def test_the_addresses_are_known_once_started():
    iris = LocalIris(Fleet.of(cpu=1), run="script")
    with pytest.raises(RuntimeError, match="not been started"):
        _ = iris.target
    iris.stop()


def test_a_taken_port_is_an_error_that_leaves_nothing_open():
    with LocalIris(Fleet.of(cpu=1), run="script") as first:
        port = int(first.target.rpartition(":")[2])
        with pytest.raises(RuntimeError):
            LocalIris(Fleet.of(cpu=1), run="script", port=port).start()


def test_a_given_port_is_used():
    with LocalIris(Fleet.of(cpu=1), run="script") as first:
        grpc_port, connect_port = (int(address.rpartition(":")[2]) for address in (first.target, first.url))
    with LocalIris(Fleet.of(cpu=1), run="script", port=grpc_port, connect_port=connect_port) as second:
        assert (second.target, second.url) == (first.target, first.url)


def test_the_module_serves_until_it_is_told_to_end(tmp_path):
    fleet = tmp_path / "fleet.json"
    fleet.write_text('{"cpu": 1}')
    command = [sys.executable, "-m", "fray_airflow.local", "--fleet", str(fleet)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        addresses = json.loads(process.stdout.readline())
        with grpc.insecure_channel(addresses["target"].removeprefix("grpc://")) as channel:
            call(channel, "GetCurrentUser", job_pb2.GetCurrentUserRequest())
        process.terminate()
        assert process.wait(10) == 0


def test_the_module_ends_with_its_parent():
    """The shell that starts it dies; its output then ends, because nobody holds it open any more."""
    script = f"{sys.executable} -m fray_airflow.local --die-with-parent & read wait"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert "target" in shell.stdout.readline()
        shell.kill()
        assert shell.stdout.read() == ""


def test_a_wrong_fleet_file_is_explained(tmp_path):
    fleet = tmp_path / "fleet.json"
    fleet.write_text('{"tpu": {"v5p-15": 1}}')
    command = [sys.executable, "-m", "fray_airflow.local", "--fleet", str(fleet)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "v5p-15" in ended.stderr
