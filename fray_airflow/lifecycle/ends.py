"""What a finished job means: its result, or the error that says why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fray_airflow.errors import (
    IrisError,
    JobFailedError,
    JobKilledError,
    JobPreemptedError,
    JobTimeoutError,
    UnschedulableError,
)
from fray_airflow.lifecycle.actions import TAIL_LINES, Finish
from fray_airflow.lifecycle.delivery import not_delivered
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.report import preemption_count, report
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import AttemptStatus, JobStatus, TaskStatus

_SIGKILL_CODES = (137, -9)
_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt that failed first: where the trouble began, whatever fell over afterwards."""

    replica: int
    exit_code: int
    error: str
    seconds: float
    attempt: int = 0


def first_failure(tasks: tuple[TaskStatus, ...], ended: datetime | None = None) -> Failure | None:
    """By time of its end. Replicas that were only taken down with others do not count.

    What a later attempt made good is no cause: earlier attempts count only where no replica's last one failed.
    `ended` is the end of the job, for an attempt that Iris stopped and whose process is not gone yet.
    """
    last = [(task.index, _attempts(task)[-1]) for task in tasks]
    every = [(task.index, attempt) for task in tasks for attempt in _attempts(task)]
    failed = _failed(last) or _failed(every)
    if not failed:
        return None
    replica, attempt = min(failed, key=lambda each: (each[1].finished_at or _FOREVER, each[0]))
    return Failure(replica, attempt.exit_code, attempt.error, _seconds(attempt, ended), attempt.attempt_id)


def _failed(attempts: list[tuple[int, AttemptStatus]]) -> list[tuple[int, AttemptStatus]]:
    return [each for each in attempts if each[1].state is TaskState.FAILED]


def end_of(plan: Plan, seen: Seen) -> Finish:
    """The end of the launch. An unknown state never counts as success."""
    status = seen.status
    if status is not None and status.state is JobState.SUCCEEDED:
        lost = not_delivered(plan, seen)
        return Finish(error=lost) if lost else Finish(result=report(plan, seen))
    if status is None:
        raise ValueError("a job that was not seen has no end")
    return Finish(error=_error(plan, seen, status))


def _error(plan: Plan, seen: Seen, status: JobStatus) -> IrisError:
    failure = first_failure(seen.tasks, status.finished_at)
    kind, text = _cause(plan, seen, status, failure)
    return kind(
        f"{status.job_id} {text}{_raised(seen, failure) or _tail(seen, failure)}",
        job_id=status.job_id,
        state=status.state.name,
        exit_code=failure.exit_code if failure else None,
        # On a finished job Iris repeats the error here; a reason for waiting it is only if the job never ran.
        pending_reason=status.pending_reason if seen.running_at is None and failure is None else "",
    )


def _cause(plan: Plan, seen: Seen, status: JobStatus, failure: Failure | None) -> tuple[type[IrisError], str]:
    match status.state:
        case JobState.FAILED if failure and plan.job_timeout is not None and failure.seconds >= plan.job_timeout:
            return JobTimeoutError, (
                f"FAILED: replica {failure.replica} ran for {failure.seconds:.0f} s, longer than the job_timeout of "
                f"{plan.job_timeout:g} s. Raise job_timeout, or let the job save its state and go on in a retry."
            )
        case JobState.FAILED if failure:
            return JobFailedError, f"FAILED: {_exception(seen, failure) or _exit(failure)}"
        case JobState.KILLED:
            return JobKilledError, "was KILLED by somebody outside Airflow. Clear the task to run it again."
        case JobState.WORKER_FAILED:
            return JobPreemptedError, (
                f"lost its machines {preemption_count(seen)} times, more than its budget allows: {status.error}. "
                "Raise max_retries_preemption, or ask for machines that are not preemptible."
            )
        case JobState.UNSCHEDULABLE:
            return UnschedulableError, f"was never placed: {status.error}. Ask for machines that the cluster has free."
    return (
        JobFailedError,
        f"ended as {status.state}: {status.error or 'Iris gives no reason'}. Look at its page in Iris.",
    )


def _exit(failure: Failure) -> str:
    where = f"replica {failure.replica}"
    if failure.exit_code in _SIGKILL_CODES:
        return f"{where} was killed (exit code {failure.exit_code}), most likely for want of memory. Raise ram."
    if failure.exit_code == 0:
        return f"{where}: {failure.error}. Iris could not run it; check image, files and command."
    return (
        f"{where} ended with exit code {failure.exit_code}. Its program failed: read its last lines, fix it, and retry."
    )


def _exception(seen: Seen, failure: Failure) -> str:
    raised = seen.results.get(failure.replica, {}).get("error")
    return (
        f"replica {failure.replica} raised {raised['type']}: {raised['message']}. Fix the function, and retry."
        if raised
        else ""
    )


def _raised(seen: Seen, failure: Failure | None) -> str:
    """The end of the traceback: the lines of a log may hold other things between."""
    raised = seen.results.get(failure.replica, {}).get("error") if failure else None
    if not raised:
        return ""
    lines = "".join(f"\n  {line[:500]}" for line in str(raised["traceback"]).splitlines()[-TAIL_LINES:])
    return f"\nIts traceback ends:{lines}"


def _tail(seen: Seen, failure: Failure | None) -> str:
    if failure is None or not seen.tail:
        return ""
    lines = "".join(f"\n  {line.text[:500]}" for line in seen.tail)
    return f"\nLast lines of replica {failure.replica}:{lines}"


def _attempts(task: TaskStatus) -> tuple[AttemptStatus, ...]:
    if task.attempts:
        return task.attempts
    return (
        AttemptStatus(
            attempt_id=0,
            state=task.state,
            exit_code=task.exit_code,
            error=task.error,
            started_at=task.started_at,
            finished_at=task.finished_at,
        ),
    )


def _seconds(attempt: AttemptStatus, ended: datetime | None) -> float:
    end = attempt.finished_at or ended
    return (end - attempt.started_at).total_seconds() if attempt.started_at and end else 0.0
