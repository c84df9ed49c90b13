"""The embedded Iris without sockets: `handle` bytes, `tick` the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError, Message

from fray_airflow.iris._gen import controller_pb2, job_pb2, logging_pb2

from . import listing, status
from .access import Access, Caller
from .autoscaler import autoscaler_status
from .engine import Draining, Engine
from .expectations import complaints
from .faults import SHUTTING_DOWN, Faults
from .fleet import Fleet
from .logs import LogStore
from .names import is_job_name, parse_job_name
from .runner import Runner
from .scheduler_state import scheduler_state
from .script import Outcome
from .submission import Submission
from .table import Job, Task
from .timing import Timing
from .wire_error import WireError, internal

C = controller_pb2.Controller

CONTROLLER = "/iris.cluster.ControllerService/"
ENDPOINTS = "/iris.cluster.EndpointService/"
LOGS = "/finelog.logging.LogService/"
LOG_PROXY = "/proxy/system.log-server"
_REPLACE_POLL_SECONDS = 0.05


class _Rpc(NamedTuple):
    request: Callable[[], Any]
    respond: Callable[[Any, Caller], Message]


class LocalCluster:
    """Thread-safe. Time is whatever `clock` says; `pause` is how a launch waits for the job it replaces to drain."""

    def __init__(
        self,
        fleet: Fleet | None = None,
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
        timing: Timing | None = None,
        access: Access | None = None,
        processes: Callable[[LogStore], Runner] | None = None,
        calling_task: Callable[[], str] = str,
    ) -> None:
        """`calling_task` tells which Airflow task calls, "" when that is not known."""
        self.access = access or Access()
        self.faults = Faults(clock)
        self._clock = clock
        self._pause = pause
        self._calling_task = calling_task
        self._timing = timing or Timing()
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self.engine = Engine(fleet or Fleet.default(), clock, self._timing, processes)
        self._rpcs = self._table_of_rpcs()

    def tick(self) -> None:
        with self._lock:
            self.engine.tick()

    def close(self) -> None:
        """Ends all tasks; calls that come later, or still wait, are refused."""
        self._closed.set()
        with self._lock:
            self.engine.close()

    def script(self, pattern: str, *outcomes: Outcome) -> None:
        """Outcomes for the jobs of an Airflow task, or of a name, that fits `pattern`, in the order they are drawn."""
        with self._lock:
            self.engine.script.add(pattern, outcomes or (Outcome.succeed(),))

    def allow_others(self) -> None:
        with self._lock:
            self.engine.script.allows_others = True

    def unused_script(self) -> list[str]:
        with self._lock:
            return self.engine.script.unused()

    def submissions(self) -> list[Submission]:
        with self._lock:
            return list(self.engine.submissions)

    def complaints(self) -> list[str]:
        with self._lock:
            return complaints(self.engine.script, self.faults, self.engine.submissions)

    def preempt(self, task_id: str, by: str = "/other/urgent/0") -> None:
        """Take the VM of a running task away. Raises LookupError when there is none."""
        with self._lock:
            job, task = self._running_task(task_id)
            self.engine.preempt(job, task, by)

    def lose_worker(self, worker_id: str) -> None:
        """The VM dies. Raises LookupError for an unknown one."""
        with self._lock:
            worker = self.engine.workers.get(worker_id)
            if worker is None:
                raise LookupError(f"no worker {worker_id!r}")
            self.engine.lose_worker(worker)

    def handle(self, path: str, request: bytes, metadata: Mapping[str, str] | None = None) -> bytes:
        """One call, binary protobuf in and out. Raises WireError, `unimplemented` for a path nobody knows."""
        return self.respond(path, lambda message: message.ParseFromString(request), metadata).SerializeToString()

    def proxies(self) -> bool:
        """Whether the log service can be reached through the controller."""
        with self._lock:
            return not self.engine.endpoints.break_the_proxy()

    def paths(self) -> list[str]:
        return list(self._rpcs)

    def knows(self, path: str) -> bool:
        return path in self._rpcs

    def respond(
        self, path: str, parse: Callable[[Message], object], metadata: Mapping[str, str] | None = None
    ) -> Message:
        """As `handle`, for a codec of the caller's: `parse` fills a request, raising ValueError when it cannot."""
        rpc = self._rpcs.get(path)
        if rpc is None:
            raise WireError("unimplemented", f"unknown method {path}")
        method = path.rpartition("/")[2]
        self._check_open()
        self.faults.before(method)
        caller = self.access.authenticate(metadata or {})
        request = rpc.request()
        try:
            parse(request)
        except (DecodeError, ValueError) as error:
            raise WireError("unknown", str(error)) from error
        response = self._guarded(method, rpc, request, caller)
        self.faults.after(method)
        return response

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise WireError("unavailable", SHUTTING_DOWN)

    def _guarded(self, method: str, rpc: _Rpc, request: Message, caller: Caller) -> Message:
        try:
            return rpc.respond(request, caller)
        except WireError:
            raise
        except Exception as error:
            raise internal(method, error, int(self._clock() * 1000)) from error

    def _table_of_rpcs(self) -> dict[str, _Rpc]:
        engine = self.engine
        controller = {
            "LaunchJob": _Rpc(C.LaunchJobRequest, self._launch),
            "GetJobStatus": _Rpc(C.GetJobStatusRequest, self._locked(self._job_status)),
            "GetJobState": _Rpc(C.GetJobStateRequest, self._locked(self._job_states)),
            "TerminateJob": _Rpc(C.TerminateJobRequest, self._locked(self._terminate)),
            "ListJobs": _Rpc(C.ListJobsRequest, self._locked(self._list_jobs)),
            "ListTasks": _Rpc(C.ListTasksRequest, self._locked(self._list_tasks)),
            "ListWorkers": _Rpc(C.ListWorkersRequest, self._locked(self._list_workers)),
            "GetCurrentUser": _Rpc(job_pb2.GetCurrentUserRequest, self._current_user),
            "GetAutoscalerStatus": _Rpc(C.GetAutoscalerStatusRequest, self._locked(self._autoscaler)),
            "GetSchedulerState": _Rpc(
                C.GetSchedulerStateRequest, self._locked(lambda _, caller: scheduler_state(engine.table))
            ),
        }
        registry = engine.endpoints
        endpoints = {
            "RegisterEndpoint": _Rpc(C.RegisterEndpointRequest, self._locked(lambda r, _: registry.register(r))),
            "UnregisterEndpoint": _Rpc(C.UnregisterEndpointRequest, self._locked(lambda r, _: registry.unregister(r))),
            "ListEndpoints": _Rpc(C.ListEndpointsRequest, self._locked(lambda r, _: registry.listed(r))),
        }
        logs = {
            "FetchLogs": _Rpc(logging_pb2.FetchLogsRequest, lambda request, caller: engine.logs.fetch(request)),
            "PushLogs": _Rpc(logging_pb2.PushLogsRequest, lambda request, caller: engine.logs.push(request)),
        }
        return {
            **{CONTROLLER + name: rpc for name, rpc in controller.items()},
            **{ENDPOINTS + name: rpc for name, rpc in endpoints.items()},
            **{LOGS + name: rpc for name, rpc in logs.items()},
            **{LOG_PROXY + LOGS + name: rpc for name, rpc in logs.items()},
        }

    def _locked(self, respond: Callable[[Any, Caller], Message]) -> Callable[[Any, Caller], Message]:
        def locked(request: Any, caller: Caller) -> Message:
            with self._lock:
                return respond(request, caller)

        return locked

    def _launch(self, request: C.LaunchJobRequest, caller: Caller) -> C.LaunchJobResponse:
        """Blocks while a job that is to be replaced drains. Other calls go on meanwhile."""
        deadline = self._clock() + self._timing.longest_drain_seconds
        task_id = self._calling_task()
        while True:
            self._check_open()
            try:
                with self._lock:
                    force = self._clock() >= deadline
                    job_id = self.engine.launch(request, caller, force=force, task_id=task_id)
                    return C.LaunchJobResponse(job_id=job_id)
            except Draining:
                self._pause(_REPLACE_POLL_SECONDS)

    def _job_status(self, request: C.GetJobStatusRequest, caller: Caller) -> C.GetJobStatusResponse:
        return status.job_reply(self._job(request.job_id), self.engine.table)

    def _job_states(self, request: C.GetJobStateRequest, caller: Caller) -> C.GetJobStateResponse:
        jobs = (self.engine.table.get(job_id) for job_id in request.job_ids if is_job_name(job_id))
        return C.GetJobStateResponse(states={job.job_id: job.state for job in jobs if job is not None})

    def _terminate(self, request: C.TerminateJobRequest, caller: Caller) -> job_pb2.Empty:
        job = self._job(request.job_id)
        caller.check_may_change(job.owner)
        self.engine.terminate(job)
        return job_pb2.Empty()

    def _list_jobs(self, request: C.ListJobsRequest, caller: Caller) -> C.ListJobsResponse:
        return listing.list_jobs(request.query, self.engine.table)

    def _list_tasks(self, request: C.ListTasksRequest, caller: Caller) -> C.ListTasksResponse:
        if not request.job_id:
            raise WireError("invalid_argument", "job_id is required")
        job = self.engine.table.get(parse_job_name(request.job_id).job_id)
        return C.ListTasksResponse(tasks=[status.task_status(task, job) for task in job.tasks] if job else [])

    def _list_workers(self, request: C.ListWorkersRequest, caller: Caller) -> C.ListWorkersResponse:
        now_ms = self.engine.now_ms()
        return listing.list_workers(request.query, self.engine.workers, self._running(), now_ms)

    def _current_user(self, request: job_pb2.GetCurrentUserRequest, caller: Caller) -> job_pb2.GetCurrentUserResponse:
        return job_pb2.GetCurrentUserResponse(user_id=caller.user_id, role=caller.role)

    def _autoscaler(self, request: C.GetAutoscalerStatusRequest, caller: Caller) -> C.GetAutoscalerStatusResponse:
        engine = self.engine
        return autoscaler_status(engine.workers, engine.table, self._running(), engine.now_ms())

    def _job(self, job_id: str) -> Job:
        job = self.engine.table.get(parse_job_name(job_id).job_id)
        if job is None:
            raise WireError("not_found", f"Job {job_id} not found")
        return job

    def _running_task(self, task_id: str) -> tuple[Job, Task]:
        for job in self.engine.table:
            for task in job.tasks:
                if task.task_id == task_id and task.is_active:
                    return job, task
        raise LookupError(f"no running task {task_id!r}")

    def _running(self) -> dict[str, list[str]]:
        """Task ids per worker."""
        found: dict[str, list[str]] = {}
        for task in (task for job in self.engine.table for task in job.tasks if task.is_active):
            found.setdefault(task.attempts[-1].worker_id, []).append(task.task_id)
        return found
