"""What the end of an attempt, or of a job, does to everything around it.

Each function changes the records and returns the attempts whose processes have to be stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from fray_airflow.iris._gen import job_pb2

from .table import PENDING, Attempt, Job, Task, friendly_name

SUCCEEDED = job_pb2.TASK_STATE_SUCCEEDED
FAILED = job_pb2.TASK_STATE_FAILED
KILLED = job_pb2.TASK_STATE_KILLED
COSCHED_FAILED = job_pb2.TASK_STATE_COSCHED_FAILED


@dataclass(frozen=True)
class End:
    """How an attempt ended. `process_ended` is False where the process has yet to be stopped."""

    state: job_pb2.TaskState
    exit_code: int = 0
    error: str = ""
    retryable: bool = True
    process_ended: bool = True

    @classmethod
    def of_exit(cls, exit_code: int, error: str) -> End:
        return cls(SUCCEEDED) if exit_code == 0 and not error else cls(FAILED, exit_code, error)


def end_attempt(job: Job, task: Task, end: End, now_ms: int) -> list[Attempt]:
    """The current attempt of `task` ended; the task ends or waits for its next attempt, and the job follows."""
    attempt = task.attempts[-1]
    attempt.state, attempt.exit_code, attempt.error = end.state, end.exit_code, end.error
    attempt.status_message = ""
    attempt.is_worker_failure = end.state in (job_pb2.TASK_STATE_WORKER_FAILED, job_pb2.TASK_STATE_PREEMPTED)
    stopped = [] if end.process_ended else [attempt]
    if end.process_ended:
        attempt.finished_ms = now_ms
    task.exit_code = end.exit_code
    if end.state == SUCCEEDED:
        _finish(task, SUCCEEDED, now_ms)
    else:
        task.error = end.error
        again = _charge(job, task, end)
        _requeue(task) if again else _finish(task, end.state, now_ms)
        stopped += _settle_gang(job, task, again, now_ms)
    return stopped + settle(job, now_ms)


def settle(job: Job, now_ms: int) -> list[Attempt]:
    """Let the job's state follow its tasks; the end of a job ends the tasks that are left."""
    if job.is_terminal:
        return []
    job.state, job.error = job.outcome()
    if job.started_ms is None and job.state != job_pb2.JOB_STATE_PENDING and any(task.attempts for task in job.tasks):
        job.started_ms = now_ms
    if not job.is_terminal:
        return []
    job.finished_ms = now_ms
    return _kill_rest(job, job.error, now_ms)


def terminate(job: Job, error: str, now_ms: int) -> list[Attempt]:
    """Somebody ends the job. A no-op on one that has ended. The started attempts count as preemptions, as in Iris."""
    if job.is_terminal:
        return []
    stopped = _kill_rest(job, error, now_ms)
    job.preemption_count += sum(attempt.started_ms is not None for attempt in stopped)
    job.state, job.error, job.finished_ms = job_pb2.JOB_STATE_KILLED, error, now_ms
    return stopped


def give_up_scheduling(job: Job, timeout_seconds: float, now_ms: int) -> list[Attempt]:
    """The scheduling timeout passed: tasks that wait now end, those that run are ended with the job."""
    for task in job.tasks:
        if task.state == PENDING:
            task.error = f"Scheduling timeout exceeded (Duration({timeout_seconds:.3f}s))"
            _finish(task, job_pb2.TASK_STATE_UNSCHEDULABLE, now_ms)
    return settle(job, now_ms)


def reject(job: Job, error: str, now_ms: int) -> None:
    """An accepted job that cannot be right: it has failed before it has tasks."""
    job.state, job.error, job.finished_ms = job_pb2.JOB_STATE_FAILED, error, now_ms


def _charge(job: Job, task: Task, end: End) -> bool:
    """Count the failure against its budget; true when the task may run again."""
    if end.state == FAILED:
        job.failure_count += 1
        task.failures += 1
        return end.retryable and task.failures <= job.request.max_retries_failure
    job.preemption_count += 1
    task.preemptions += 1
    return task.preemptions <= job.request.max_retries_preemption


def _settle_gang(job: Job, cause: Task, again: bool, now_ms: int) -> list[Attempt]:
    """The siblings of a coscheduled task share its fate: bounced with it, or failed with it. Neither is counted."""
    if not job.gang_level:
        return []
    stopped = []
    fate = "bounced for atomic re-scheduling" if again else "failed"
    for task in job.tasks:
        if task is cause or task.is_terminal:
            continue
        error = f"Coscheduled sibling {cause.task_id} {fate}"
        if task.is_active:
            attempt = task.attempts[-1]
            attempt.state, attempt.error, attempt.status_message = COSCHED_FAILED, error, ""
            stopped.append(attempt)
        elif again:
            continue
        task.error = error
        _requeue(task) if again else _finish(task, COSCHED_FAILED, now_ms)
    return stopped


def _kill_rest(job: Job, error: str, now_ms: int) -> list[Attempt]:
    stopped = []
    for task in job.tasks:
        if task.is_terminal:
            continue
        if task.is_active:
            attempt = task.attempts[-1]
            attempt.state, attempt.error, attempt.status_message = KILLED, error, ""
            stopped.append(attempt)
        task.error, task.exit_code = error, 0
        _finish(task, KILLED, now_ms)
    return stopped


def _requeue(task: Task) -> None:
    last = friendly_name(job_pb2.TaskState.Name(task.attempts[-1].state))
    task.state = PENDING
    task.pending_reason = f"Retrying (attempt {len(task.attempts)}, last: task_state_{last})"


def _finish(task: Task, state: job_pb2.TaskState, now_ms: int) -> None:
    task.state, task.finished_ms, task.pending_reason = state, now_ms, ""
