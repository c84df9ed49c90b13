"""What can be asked of a controller: each operation is a call, its request, and how to read the reply.

The sync and the async client both run these; nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from fray_airflow.capacity import Need
from fray_airflow.iris import calls, read
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris._gen.job_pb2 import GetCurrentUserRequest
from fray_airflow.iris._gen.logging_pb2 import MATCH_SCOPE_EXACT, MATCH_SCOPE_PREFIX, FetchLogsRequest
from fray_airflow.iris._gen.vm_pb2 import AutoscalerStatus
from fray_airflow.logs import LogCursor, LogPage
from fray_airflow.scaling import Scaling
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus, TaskStatus, Worker

PAGE_LINES = 1000


@dataclass(frozen=True, slots=True)
class Operation[T]:
    """`job_id` is for error messages. `patient` operations are worth sending again when the controller is away."""

    call: calls.Call
    request: bytes
    read: Callable[[bytes], T]
    job_id: str = ""
    patient: bool = True


class User(NamedTuple):
    """Who the controller takes us for. An admin may submit as anybody; others submit as themselves."""

    user_id: str
    role: str

    @property
    def admin(self) -> bool:
        return self.role == "admin"


def launch(request: Controller.LaunchJobRequest) -> Operation[str]:
    return Operation(
        calls.LAUNCH_JOB,
        request.SerializeToString(),
        read.launched,
        request.name,
    )


def job_status(job_id: str) -> Operation[JobStatus]:
    request = Controller.GetJobStatusRequest(job_id=job_id)
    return Operation(calls.GET_JOB_STATUS, request.SerializeToString(), read.job_status, job_id)


def job_request(job_id: str) -> Operation[Controller.LaunchJobRequest]:
    request = Controller.GetJobStatusRequest(job_id=job_id)
    return Operation(calls.GET_JOB_STATUS, request.SerializeToString(), read.job_request, job_id)


def job_states(job_ids: Iterable[str]) -> Operation[dict[str, JobState]]:
    request = Controller.GetJobStateRequest(job_ids=job_ids)
    return Operation(calls.GET_JOB_STATE, request.SerializeToString(), read.job_states)


def jobs(
    name_contains: str = "", state: str = "", limit: int = 100, *, prefix: str = "", offset: int = 0
) -> Operation[list[JobStatus]]:
    """The newest first. `prefix` is of whole job ids, `offset` how many of the newest are left out."""
    request = Controller.ListJobsRequest()
    request.query.limit = limit
    request.query.offset = offset
    if prefix:
        request.query.job_id_prefix = prefix
    if name_contains:
        request.query.name_filter = name_contains
    if state:
        request.query.state_filter = state
    return Operation(calls.LIST_JOBS, request.SerializeToString(), read.job_list)


def tasks(job_id: str) -> Operation[list[TaskStatus]]:
    request = Controller.ListTasksRequest(job_id=job_id)
    return Operation(calls.LIST_TASKS, request.SerializeToString(), read.tasks, job_id)


def terminate(job_id: str) -> Operation[None]:
    request = Controller.TerminateJobRequest(job_id=job_id)
    return Operation(calls.TERMINATE_JOB, request.SerializeToString(), lambda _: None, job_id)


def workers(contains: str = "", limit: int = 10_000) -> Operation[list[Worker]]:
    request = Controller.ListWorkersRequest()
    request.query.limit = limit
    if contains:
        request.query.contains = contains
    return Operation(calls.LIST_WORKERS, request.SerializeToString(), read.workers)


def bands(job_ids: Collection[str]) -> Operation[dict[str, str]]:
    request = Controller.GetSchedulerStateRequest()
    return Operation(calls.GET_SCHEDULER_STATE, request.SerializeToString(), partial(read.bands, job_ids=job_ids))


def autoscaler() -> Operation[AutoscalerStatus]:
    request = Controller.GetAutoscalerStatusRequest()
    return Operation(calls.GET_AUTOSCALER_STATUS, request.SerializeToString(), read.autoscaler)


def scaling() -> Operation[Scaling]:
    request = Controller.GetAutoscalerStatusRequest()
    return Operation(calls.GET_AUTOSCALER_STATUS, request.SerializeToString(), read.scaling)


def job_need(job_id: str) -> Operation[Need]:
    """What one replica of a job takes of its machine."""
    request = Controller.GetJobStatusRequest(job_id=job_id)
    return Operation(calls.GET_JOB_STATUS, request.SerializeToString(), read.job_need, job_id)


def whoami() -> Operation[User]:
    request = GetCurrentUserRequest()
    return Operation(calls.GET_CURRENT_USER, request.SerializeToString(), lambda reply: User(*read.current_user(reply)))


def logs(cursor: LogCursor, *, max_lines: int = PAGE_LINES, replicas: Sequence[int] = ()) -> Operation[LogPage]:
    """The lines behind `cursor`, at most `max_lines`, of all replicas or of one."""
    # The slash keeps out the job whose name merely starts with this one's.
    source = f"{cursor.job_id}/{replicas[0]}:" if len(replicas) == 1 else f"{cursor.job_id}/"
    request = FetchLogsRequest(source=source, match_scope=MATCH_SCOPE_PREFIX, cursor=cursor.seq, max_lines=max_lines)
    if cursor.since_ms:
        # "Since" is exclusive, and a first line may carry the very millisecond of the submission.
        request.since_ms = cursor.since_ms - 1
    return Operation(
        calls.FETCH_LOGS,
        request.SerializeToString(),
        lambda reply: read.log_page(reply, cursor, max_lines),
        cursor.job_id,
        # Lines can wait for the next poll; a log service that is away must not hold up the watching.
        patient=False,
    )


def log_tail(job_id: str, replica: int, *, since_ms: int = 0, lines: int = 20) -> Operation[LogPage]:
    """The last lines of one replica, all its attempts together."""
    request = FetchLogsRequest(
        source=f"{job_id}/{replica}:", match_scope=MATCH_SCOPE_PREFIX, tail=True, max_lines=lines
    )
    if since_ms:
        request.since_ms = since_ms - 1
    return Operation(
        calls.FETCH_LOGS,
        request.SerializeToString(),
        lambda reply: read.log_page(reply, LogCursor(job_id, since_ms), lines),
        job_id,
        patient=False,
    )


def result_entries(job_id: str, replica: int, attempt: int, *, since_ms: int = 0) -> Operation[tuple[str, ...]]:
    """The envelope that one attempt of one replica has pushed, as text; empty if there is none."""
    # The last one: an entry whose reply was lost is pushed again.
    request = FetchLogsRequest(
        source=f"{job_id}/{replica}:{attempt}.result", match_scope=MATCH_SCOPE_EXACT, tail=True, max_lines=1
    )
    if since_ms:
        request.since_ms = since_ms - 1
    return Operation(calls.FETCH_LOGS, request.SerializeToString(), read.entry_texts, job_id, patient=False)
