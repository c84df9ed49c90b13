"""From the controller's replies to plain values. Unknown enum numbers are carried, unset fields stay empty."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime

from fray_airflow.capacity import Need
from fray_airflow.iris._gen import job_pb2, logging_pb2, vm_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris._gen.logging_pb2 import FetchLogsResponse, LogEntry
from fray_airflow.iris._gen.time_pb2 import Timestamp
from fray_airflow.iris._gen.vm_pb2 import AutoscalerStatus
from fray_airflow.logs import LogCursor, LogLine, LogPage
from fray_airflow.scaling import Demand, Scaling, ScalingGroup, Slice
from fray_airflow.states import JobState, PriorityBand, TaskState
from fray_airflow.status import AttemptStatus, JobStatus, TaskStatus, Worker
from fray_airflow.tpu import TPU_TOPOLOGIES

_LEVELS: dict[int, int] = {
    logging_pb2.LOG_LEVEL_DEBUG: logging.DEBUG,
    logging_pb2.LOG_LEVEL_INFO: logging.INFO,
    logging_pb2.LOG_LEVEL_WARNING: logging.WARNING,
    logging_pb2.LOG_LEVEL_ERROR: logging.ERROR,
    logging_pb2.LOG_LEVEL_CRITICAL: logging.CRITICAL,
}


def job_status(reply: bytes) -> JobStatus:
    response = Controller.GetJobStatusResponse.FromString(reply)
    if not response.job.job_id:
        raise ValueError("no job in it")
    return _job(response.job, response.request)


def launched(reply: bytes) -> str:
    if job_id := Controller.LaunchJobResponse.FromString(reply).job_id:
        return job_id
    raise ValueError("no job in it")


def job_request(reply: bytes) -> Controller.LaunchJobRequest:
    return Controller.GetJobStatusResponse.FromString(reply).request


def job_list(reply: bytes) -> list[JobStatus]:
    nothing = Controller.LaunchJobRequest()
    return [_job(job, nothing) for job in Controller.ListJobsResponse.FromString(reply).jobs]


def job_states(reply: bytes) -> dict[str, JobState]:
    states = Controller.GetJobStateResponse.FromString(reply).states
    return {job_id: JobState(int(state)) for job_id, state in states.items()}


def tasks(reply: bytes) -> list[TaskStatus]:
    return sorted(map(_task, Controller.ListTasksResponse.FromString(reply).tasks), key=lambda task: task.index)


def workers(reply: bytes) -> list[Worker]:
    return [_worker(worker) for worker in Controller.ListWorkersResponse.FromString(reply).workers]


def autoscaler(reply: bytes) -> AutoscalerStatus:
    return Controller.GetAutoscalerStatusResponse.FromString(reply).status


def scaling(reply: bytes) -> Scaling:
    status = autoscaler(reply)
    routing = status.last_routing_decision
    waiting = [_demand(unmet.entry, unmet.reason) for unmet in routing.unmet_entries]
    waiting += [_demand(entry) for routed in routing.routed_entries.values() for entry in routed.entries]
    return Scaling(tuple(map(_scaling_group, status.groups)), tuple(waiting))


def job_need(reply: bytes) -> Need:
    """What one replica of a job was given: a TPU count that is left out means all chips of its VM."""
    return need(job_request(reply).resources)


def need(resources: job_pb2.ResourceSpecProto) -> Need:
    device = resources.device
    accelerators = 0
    match device.WhichOneof("device"):
        case "gpu":
            accelerators = device.gpu.count or 1
        case "tpu":
            shape = TPU_TOPOLOGIES.get(device.tpu.variant.strip().lower())
            accelerators = device.tpu.count or (shape.chips_per_vm if shape else 1)
    return Need(resources.cpu_millicores, resources.memory_bytes, accelerators)


def current_user(reply: bytes) -> tuple[str, str]:
    user = job_pb2.GetCurrentUserResponse.FromString(reply)
    return user.user_id, user.role


def log_page(reply: bytes, cursor: LogCursor, max_lines: int) -> LogPage:
    response = FetchLogsResponse.FromString(reply)
    lines = tuple(line for entry in response.entries if (line := _line(entry, cursor.job_id)) is not None)
    return LogPage(lines, cursor.advanced(response.cursor), full=len(response.entries) >= max_lines)


def entry_texts(reply: bytes) -> tuple[str, ...]:
    """What was pushed under a key, in order."""
    return tuple(entry.data for entry in FetchLogsResponse.FromString(reply).entries)


def bands(reply: bytes, *, job_ids: Collection[str]) -> dict[str, str]:
    """By job, the band that Iris runs it in; of those only that run. A job's request may have asked for another."""
    running = Controller.GetSchedulerStateResponse.FromString(reply).running_buckets
    return {each.job_id: _band(each.band) for each in running if each.job_id in job_ids}


def _job(job: job_pb2.JobStatus, request: Controller.LaunchJobRequest) -> JobStatus:
    return JobStatus(
        job_id=job.job_id,
        state=JobState(int(job.state)),
        submitted_at=_time(job.submitted_at),
        started_at=_time(job.started_at),
        finished_at=_time(job.finished_at),
        error=job.error,
        pending_reason=job.pending_reason,
        task_count=job.task_count,
        task_state_counts=dict(job.task_state_counts),
        failure_count=job.failure_count,
        preemption_count=job.preemption_count,
        request_env=dict(request.environment.env_vars),
        band=_band(request.priority_band),
    )


def _band(number: int) -> str:
    """As a request writes it; "" for a request that is not there, or a band of a newer server."""
    return PriorityBand(number).name.lower() if number in PriorityBand and number else ""


def _task(task: job_pb2.TaskStatus) -> TaskStatus:
    return TaskStatus(
        task_id=task.task_id,
        state=TaskState(int(task.state)),
        worker_id=task.worker_id,
        exit_code=task.exit_code,
        error=task.error,
        pending_reason=task.pending_reason,
        started_at=_time(task.started_at),
        finished_at=_time(task.finished_at),
        attempts=tuple(map(_attempt, task.attempts)),
    )


def _attempt(attempt: job_pb2.TaskAttempt) -> AttemptStatus:
    return AttemptStatus(
        attempt_id=attempt.attempt_id,
        state=TaskState(int(attempt.state)),
        worker_id=attempt.worker_id,
        exit_code=attempt.exit_code,
        error=attempt.error,
        started_at=_time(attempt.started_at),
        finished_at=_time(attempt.finished_at),
        is_worker_failure=attempt.is_worker_failure,
    )


def _worker(worker: Controller.WorkerHealthStatus) -> Worker:
    return Worker(
        worker_id=worker.worker_id,
        healthy=worker.healthy,
        address=worker.address,
        scale_group=worker.scale_group,
        attributes={key: _attribute(value) for key, value in worker.metadata.attributes.items()},
        # The field is called running_job_ids, but holds task ids.
        task_ids=tuple(worker.running_job_ids),
        failures=worker.consecutive_failures,
        cpu_millicores=worker.metadata.cpu_count * 1000,
        memory_bytes=worker.metadata.memory_bytes,
        accelerators=_accelerators(worker.metadata),
    )


def _accelerators(metadata: job_pb2.WorkerMetadata) -> int:
    device = metadata.device
    return device.tpu.count if device.WhichOneof("device") == "tpu" else metadata.gpu_count or device.gpu.count


def _scaling_group(group: vm_pb2.ScaleGroupStatus) -> ScalingGroup:
    named = sum(each.state == "requesting" for each in group.slices)
    return ScalingGroup(
        name=group.name,
        device_type=group.device_type,
        variant=group.device_variant,
        region=group.region,
        availability=group.availability_status,
        reason=group.availability_reason,
        slices=tuple(map(_slice, group.slices)),
        requested=max(0, group.slice_state_counts.get("requesting", 0) - named),
    )


def _slice(found: vm_pb2.SliceInfo) -> Slice:
    # A usability that is not set says nothing.
    unusable = tuple(_vm_worker(vm) for vm in found.vms if vm.usability not in ("", "healthy"))
    return Slice(found.slice_id, found.state, tuple(map(_vm_worker, found.vms)), unusable)


def _vm_worker(vm: vm_pb2.VmInfo) -> str:
    return vm.worker_id or vm.vm_id


def _demand(entry: vm_pb2.DemandEntryStatus, unmet: str = "") -> Demand:
    return Demand(entry.device_type, entry.device_variant, len(entry.task_ids), bool(entry.coschedule_group_id), unmet)


def _attribute(value: job_pb2.AttributeValue) -> str | int | float:
    kind = value.WhichOneof("value")
    return "" if kind is None else getattr(value, kind)


def _line(entry: LogEntry, job_id: str) -> LogLine | None:
    """None for what is not an attempt's output: other things may be stored under a job's name."""
    task, _, attempt = entry.key.removeprefix(f"{job_id}/").partition(":")
    if not task.isdecimal() or not attempt.isdecimal():
        return None
    return LogLine(
        replica=int(task),
        attempt=int(attempt),
        text=entry.data,
        source=entry.source,
        level=_LEVELS.get(int(entry.level), logging.INFO),
        at=datetime.fromtimestamp(entry.timestamp.epoch_ms / 1000, UTC),
    )


def _time(timestamp: Timestamp) -> datetime | None:
    return datetime.fromtimestamp(timestamp.epoch_ms / 1000, UTC) if timestamp.epoch_ms else None
