"""A reply that is lost does not make a second job."""

from __future__ import annotations

import grpc
import pytest
from both_clients import MODES, submit
from wire_servers import FakeIris, GrpcServer, HttpServer, Lost, WireError, http

from fray_airflow import Entrypoint, JobRequest
from fray_airflow.errors import IrisUnavailableError, JobExistsError, SubmissionRejectedError
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris._gen.controller_pb2 import Controller

JOB = JobRequest(name="train", entrypoint=Entrypoint.from_binary("true"))
in_both_modes = pytest.mark.parametrize("mode", MODES)

WAYS_TO_LOSE = {
    "connection dropped": lambda: None,
    "half a reply": lambda: http(200, Controller.LaunchJobResponse(job_id="/airflow/train").SerializeToString()[:-2]),
    "an empty reply": lambda: http(200, b""),
    "a gateway's timeout": lambda: http(504, "<html>Gateway Timeout</html>", "text/html"),
}


@in_both_modes
@pytest.mark.parametrize("way", WAYS_TO_LOSE)
def test_a_lost_reply_is_one_job_and_no_error(mode, way):
    iris = FakeIris(lose=1, lost_reply=WAYS_TO_LOSE[way])
    with HttpServer(iris.over_http) as server:
        assert submit(mode, server.url, JOB) == "/airflow/train"
    assert (list(iris.jobs), iris.launches) == (["/airflow/train"], 2)


def over_grpc(iris: FakeIris):
    def answer(method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return iris.reply(method, request)
        except Lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        except WireError as error:
            context.abort(grpc.StatusCode[error.code.upper()], error.message)
        raise AssertionError

    return answer


@in_both_modes
def test_a_lost_reply_over_grpc_is_one_job_and_no_error(mode):
    iris = FakeIris(lose=1)
    with GrpcServer(over_grpc(iris)) as server:
        assert submit(mode, f"grpc://{server.authority}", JOB) == "/airflow/train"
    assert (list(iris.jobs), iris.launches) == (["/airflow/train"], 2)


@in_both_modes
@pytest.mark.parametrize("echo", [{LAUNCH_ENV: "somebody else's"}, {LAUNCH_ENV: ""}])
def test_a_name_that_somebody_else_took_is_an_error(mode, echo):
    iris = FakeIris(lose=1, echo=echo)
    with HttpServer(iris.over_http) as server, pytest.raises(JobExistsError, match="Choose another job_name") as caught:
        submit(mode, server.url, JOB)
    assert caught.value.job_id == "/airflow/train"
    assert len(iris.jobs) == 1


@in_both_modes
def test_a_second_submission_of_the_same_job_is_another_job(mode):
    iris = FakeIris()
    with HttpServer(iris.over_http) as server:
        submit(mode, server.url, JOB)
        with pytest.raises(JobExistsError):
            submit(mode, server.url, JOB)
    assert iris.launches == 2


@in_both_modes
def test_a_request_that_is_refused_is_sent_once(mode):
    iris = FakeIris()

    def refuse(request):
        if request.method == "LaunchJob":
            return http(500, {"code": "internal", "message": "RPC LaunchJob: bad"})
        return iris.over_http(request)

    with HttpServer(refuse) as server:
        with pytest.raises(SubmissionRejectedError, match="RPC LaunchJob: bad"):
            submit(mode, server.url, JOB)
        assert [request.method for request in server.requests] == ["GetCurrentUser", "LaunchJob"]


@in_both_modes
def test_a_controller_that_loses_every_reply_is_unavailable(mode):
    iris = FakeIris()
    with HttpServer(lambda request: None if request.method == "LaunchJob" else iris.over_http(request)) as server:
        with pytest.raises(IrisUnavailableError):
            submit(mode, server.url, JOB)
        assert [request.method for request in server.requests] == ["GetCurrentUser", *["LaunchJob"] * 4]
