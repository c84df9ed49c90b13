"""The calls of Iris that are used: one table, shared by both transports, sync and async, and by the local Iris."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris._gen.job_pb2 import Empty, GetCurrentUserRequest, GetCurrentUserResponse
from fray_airflow.iris._gen.logging_pb2 import FetchLogsRequest, FetchLogsResponse

CONTROLLER = "/iris.cluster.ControllerService/"
LOG_SERVICE = "/finelog.logging.LogService/"
LOG_PROXY = "/proxy/system.log-server"
"""Where a controller's own port forwards to the log service."""


@dataclass(frozen=True, slots=True)
class Call:
    """One method. `idempotent` says that sending it twice does what sending it once does."""

    name: str
    path: str
    request: type[Message]
    reply: type[Any]
    deadline: float = 30
    idempotent: bool = True


def _controller(name: str, request: type[Message], reply: type[Message], **options: Any) -> Call:
    return Call(name, CONTROLLER + name, request, reply, **options)


LAUNCH_JOB = _controller(
    "LaunchJob",
    Controller.LaunchJobRequest,
    Controller.LaunchJobResponse,
    # Replacing a job waits until its machines are free, up to two minutes.
    deadline=180,
    # Still safe to send again, since a second one is refused: see `Submission`.
    idempotent=False,
)
GET_JOB_STATUS = _controller("GetJobStatus", Controller.GetJobStatusRequest, Controller.GetJobStatusResponse)
GET_JOB_STATE = _controller("GetJobState", Controller.GetJobStateRequest, Controller.GetJobStateResponse)
TERMINATE_JOB = _controller("TerminateJob", Controller.TerminateJobRequest, Empty)
LIST_JOBS = _controller("ListJobs", Controller.ListJobsRequest, Controller.ListJobsResponse)
LIST_TASKS = _controller("ListTasks", Controller.ListTasksRequest, Controller.ListTasksResponse)
LIST_WORKERS = _controller("ListWorkers", Controller.ListWorkersRequest, Controller.ListWorkersResponse)
GET_CURRENT_USER = _controller("GetCurrentUser", GetCurrentUserRequest, GetCurrentUserResponse)
GET_AUTOSCALER_STATUS = _controller(
    "GetAutoscalerStatus", Controller.GetAutoscalerStatusRequest, Controller.GetAutoscalerStatusResponse
)
GET_SCHEDULER_STATE = _controller(
    "GetSchedulerState", Controller.GetSchedulerStateRequest, Controller.GetSchedulerStateResponse
)
FETCH_LOGS = Call("FetchLogs", LOG_SERVICE + "FetchLogs", FetchLogsRequest, FetchLogsResponse)
