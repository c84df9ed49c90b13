"""A cluster without sockets, threads or waiting: the test's clock is the only time there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from fray_airflow.iris._gen import controller_pb2, job_pb2, logging_pb2
from fray_airflow.local import Fleet, Outcome
from fray_airflow.local.access import Access
from fray_airflow.local.cluster import CONTROLLER, LOGS, LocalCluster
from fray_airflow.local.timing import Timing
from fray_airflow.local.wire_error import WireError

C = controller_pb2.Controller

RESPONSES: dict[str, type[Message]] = {
    "LaunchJob": C.LaunchJobResponse,
    "GetJobStatus": C.GetJobStatusResponse,
    "GetJobState": C.GetJobStateResponse,
    "TerminateJob": job_pb2.Empty,
    "ListJobs": C.ListJobsResponse,
    "ListTasks": C.ListTasksResponse,
    "ListWorkers": C.ListWorkersResponse,
    "GetCurrentUser": job_pb2.GetCurrentUserResponse,
    "GetAutoscalerStatus": C.GetAutoscalerStatusResponse,
    "GetSchedulerState": C.GetSchedulerStateResponse,
    "FetchLogs": logging_pb2.FetchLogsResponse,
    "PushLogs": logging_pb2.PushLogsResponse,
}
STEP_SECONDS = 0.05


class Driver:
    """A client and a clock in one. `metadata` goes with every call."""

    def __init__(self, fleet: Fleet | None = None, access: Access | None = None, timing: Timing | None = None) -> None:
        self.now = 1_796_000_000.0
        self.metadata: dict[str, str] = {}
        self.cluster = LocalCluster(
            fleet, clock=lambda: self.now, pause=lambda seconds: self.run(seconds), access=access, timing=timing
        )

    def run(self, seconds: float = STEP_SECONDS) -> None:
        for _ in range(max(1, round(seconds / STEP_SECONDS))):
            self.now += STEP_SECONDS
            self.cluster.tick()

    def until(self, done: Callable[[], bool], seconds: float = 30) -> float:
        """Time that passed until `done`; fails after `seconds` of the cluster's time."""
        began = self.now
        while not done():
            assert self.now - began < seconds, "did not happen in time"
            self.run()
        return self.now - began

    def call(self, method: str, request: Message) -> Any:
        prefix = LOGS if method.endswith("Logs") else CONTROLLER
        reply = self.cluster.handle(prefix + method, request.SerializeToString(), self.metadata)
        return RESPONSES[method].FromString(reply)

    def refusal(self, method: str, request: Message) -> WireError:
        with pytest.raises(WireError) as caught:
            self.call(method, request)
        return caught.value

    def launch(self, request: C.LaunchJobRequest) -> str:
        return str(self.call("LaunchJob", request).job_id)

    def script(self, pattern: str, *outcomes: Outcome) -> None:
        self.cluster.script(pattern, *outcomes)

    def terminate(self, job_id: str) -> None:
        self.call("TerminateJob", C.TerminateJobRequest(job_id=job_id))

    def status(self, job_id: str) -> job_pb2.JobStatus:
        return self.call("GetJobStatus", C.GetJobStatusRequest(job_id=job_id)).job

    def echo(self, job_id: str) -> C.LaunchJobRequest:
        return self.call("GetJobStatus", C.GetJobStatusRequest(job_id=job_id)).request

    def state(self, job_id: str) -> str:
        return job_pb2.JobState.Name(self.status(job_id).state).removeprefix("JOB_STATE_")

    def tasks(self, job_id: str) -> list[job_pb2.TaskStatus]:
        return list(self.call("ListTasks", C.ListTasksRequest(job_id=job_id)).tasks)

    def task_states(self, job_id: str) -> list[str]:
        return [job_pb2.TaskState.Name(task.state).removeprefix("TASK_STATE_") for task in self.tasks(job_id)]

    def attempts(self, job_id: str, index: int = 0) -> list[str]:
        attempts = self.tasks(job_id)[index].attempts
        return [job_pb2.TaskState.Name(attempt.state).removeprefix("TASK_STATE_") for attempt in attempts]

    def until_running(self, job_id: str, seconds: float = 30) -> float:
        return self.until(lambda: set(self.task_states(job_id)) == {"RUNNING"}, seconds)

    def until_ended(self, job_id: str, seconds: float = 30) -> str:
        self.until(lambda: self.state(job_id) not in ("PENDING", "RUNNING"), seconds)
        return self.state(job_id)

    def workers(self) -> dict[str, C.WorkerHealthStatus]:
        return {worker.worker_id: worker for worker in self.call("ListWorkers", C.ListWorkersRequest()).workers}

    def slices_of(self, job_id: str) -> list[str]:
        workers = self.workers()
        return [workers[task.worker_id].metadata.attributes["tpu-name"].string_value for task in self.tasks(job_id)]

    def fetch(self, source: str, scope: str = "PREFIX", **fields: Any) -> logging_pb2.FetchLogsResponse:
        match_scope = logging_pb2.MatchScope.Value(f"MATCH_SCOPE_{scope}")
        request = logging_pb2.FetchLogsRequest(source=source, match_scope=match_scope, **fields)
        return self.call("FetchLogs", request)

    def lines(self, source: str, scope: str = "PREFIX", **fields: Any) -> list[str]:
        return [entry.data for entry in self.fetch(source, scope, **fields).entries]


@pytest.fixture
def iris() -> Driver:
    """2 CPU hosts, 2 slices each of v5p-8 and v5p-16, one H100 host; tasks succeed unless scripted."""
    return Driver()


@pytest.fixture
def make_iris() -> type[Driver]:
    return Driver


@pytest.fixture
def job() -> Callable[..., C.LaunchJobRequest]:
    """Makes launch requests: job("/a/j", tpu="v5p-16", replicas=2, gang="tpu-name", require={"region": "local"})."""
    return make_request


def make_request(
    name: str = "/a/j",
    *,
    tpu: str = "",
    chips: int = 4,
    gpu: str = "",
    gpus: int = 1,
    cores: float = 0,
    gang: str = "",
    require: dict[str, str] | None = None,
    policy: str = "UNSPECIFIED",
    band: str = "INHERIT",
    **fields: Any,
) -> C.LaunchJobRequest:
    fields.setdefault("replicas", 1)
    fields.setdefault("existing_job_policy", f"EXISTING_JOB_POLICY_{policy}")
    fields.setdefault("priority_band", f"PRIORITY_BAND_{band}")
    request = C.LaunchJobRequest(name=name, **fields)
    if tpu:
        request.resources.device.tpu.variant, request.resources.device.tpu.count = tpu, chips
    if gpu:
        request.resources.device.gpu.variant, request.resources.device.gpu.count = gpu, gpus
    if cores:
        request.resources.cpu_millicores = round(cores * 1000)
    if gang:
        request.coscheduling.group_by = gang
    for key, value in (require or {}).items():
        constraint = request.constraints.add(key=key)
        constraint.value.string_value = value
    return request
