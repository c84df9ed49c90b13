"""The records as protobufs. What Iris never fills stays unset; what it fills is set even when it is zero."""

from __future__ import annotations

from fray_airflow.iris._gen import controller_pb2, job_pb2, time_pb2

from .table import Attempt, Job, Table, Task

BACKEND = "default"
CLUSTER = "local"
_LISTED_FAILURES = (job_pb2.TASK_STATE_FAILED, job_pb2.TASK_STATE_WORKER_FAILED)


def job_status(job: Job, table: Table, *, with_resources: bool) -> job_pb2.JobStatus:
    counts = job.task_counts()
    status = job_pb2.JobStatus(
        job_id=job.job_id,
        state=job.state,
        # Iris does not bring the tasks' exit codes up to the job.
        exit_code=0,
        error=job.error,
        started_at=stamp(job.started_ms),
        finished_at=stamp(job.finished_ms),
        failure_count=job.failure_count,
        preemption_count=job.preemption_count,
        name=job.request.name,
        submitted_at=stamp(job.submitted_ms),
        task_state_counts=counts,
        task_count=len(job.tasks),
        completed_count=counts.get("succeeded", 0) + counts.get("killed", 0),
        pending_reason=_pending_reason(job),
        has_children=bool(table.descendants(job)),
        parent_job_id=job.parent_id,
        backend_id=BACKEND,
        cluster=CLUSTER,
        peer_status=job_pb2.PEER_STATUS_NONE,
    )
    if with_resources:
        status.resources.CopyFrom(job.request.resources)
    return status


def job_reply(job: Job, table: Table) -> controller_pb2.Controller.GetJobStatusResponse:
    return controller_pb2.Controller.GetJobStatusResponse(
        job=job_status(job, table, with_resources=True), request=job.request
    )


def task_status(task: Task, job: Job) -> job_pb2.TaskStatus:
    current = task.current
    waiting = task.state == job_pb2.TASK_STATE_PENDING
    return job_pb2.TaskStatus(
        task_id=task.task_id,
        state=task.state,
        worker_id=current.worker_id if current and not waiting else "",
        worker_address="",
        exit_code=task.exit_code,
        error=task.error,
        started_at=stamp(current.started_ms if current else None),
        finished_at=stamp(task.finished_ms),
        current_attempt_id=current.attempt_id if current else -1,
        attempts=[_attempt(attempt) for attempt in _listed(task)],
        # Why a task waits for its first attempt is told by its job only.
        pending_reason=task.pending_reason if current else "",
        can_be_scheduled=waiting,
        container_id=f"local-{current.uid[:8]}" if current else "",
        backend_id=BACKEND,
        cluster=CLUSTER,
        submitted_at=stamp(job.submitted_ms),
        status_message=current.status_message if current else "",
    )


def stamp(epoch_ms: int | None) -> time_pb2.Timestamp | None:
    return None if epoch_ms is None else time_pb2.Timestamp(epoch_ms=epoch_ms)


def _pending_reason(job: Job) -> str:
    if job.state == job_pb2.JOB_STATE_PENDING:
        return next((task.pending_reason for task in job.tasks if task.pending_reason), "")
    return job.error


def _listed(task: Task) -> list[Attempt]:
    """ListTasks is bounded: the current attempt, the latest that failed and the latest that lost its worker.

    When the current one is the latest that failed, no earlier failure is told.
    """
    latest = {attempt.state: attempt.attempt_id for attempt in task.attempts if attempt.state in _LISTED_FAILURES}
    return [attempt for attempt in task.attempts if attempt is task.current or attempt.attempt_id in latest.values()]


def _attempt(attempt: Attempt) -> job_pb2.TaskAttempt:
    return job_pb2.TaskAttempt(
        attempt_id=attempt.attempt_id,
        worker_id=attempt.worker_id,
        state=attempt.state,
        exit_code=attempt.exit_code,
        error=attempt.error,
        started_at=stamp(attempt.started_ms),
        finished_at=stamp(attempt.finished_ms),
        is_worker_failure=attempt.is_worker_failure,
        attempt_uid=attempt.uid,
        pod_name="",
        pod_uid="",
        node_name="",
        terminal_reason="",
    )
