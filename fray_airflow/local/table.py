"""Jobs, tasks and attempts as the controller remembers them, and how a job's state follows from its tasks'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from fray_airflow.iris._gen import controller_pb2, job_pb2

from .names import parse_job_name
from .workers import Need

PENDING = job_pb2.TASK_STATE_PENDING
ACTIVE = frozenset({job_pb2.TASK_STATE_ASSIGNED, job_pb2.TASK_STATE_BUILDING, job_pb2.TASK_STATE_RUNNING})
WORKER_ENDS = frozenset(
    {job_pb2.TASK_STATE_WORKER_FAILED, job_pb2.TASK_STATE_PREEMPTED, job_pb2.TASK_STATE_COSCHED_FAILED}
)
LIVE_JOB = frozenset({job_pb2.JOB_STATE_PENDING, job_pb2.JOB_STATE_BUILDING, job_pb2.JOB_STATE_RUNNING})
FIRST_REASON = "Pending scheduler feedback"


@dataclass
class Attempt:
    """One run of a task on one worker. `worker_id` is "" once that worker is gone."""

    attempt_id: int
    uid: str
    worker_id: str
    state: job_pb2.TaskState = job_pb2.TASK_STATE_ASSIGNED
    exit_code: int = 0
    error: str = ""
    started_ms: int | None = None
    finished_ms: int | None = None
    is_worker_failure: bool = False
    status_message: str = ""


@dataclass
class Task:
    """One replica. `error` keeps the last failure even after a later success, as Iris does."""

    job_id: str
    index: int
    state: job_pb2.TaskState = PENDING
    attempts: list[Attempt] = field(default_factory=list)
    exit_code: int = 0
    error: str = ""
    pending_reason: str = FIRST_REASON
    finished_ms: int | None = None
    failures: int = 0
    preemptions: int = 0

    @property
    def task_id(self) -> str:
        return f"{self.job_id}/{self.index}"

    @property
    def current(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def is_terminal(self) -> bool:
        return self.state != PENDING and self.state not in ACTIVE

    @property
    def log_key(self) -> str:
        return f"{self.task_id}:{len(self.attempts) - 1}"


@dataclass
class Job:
    """A launched job. `request` is what GetJobStatus echoes; files and bundle are kept beside it."""

    job_id: str
    request: controller_pb2.Controller.LaunchJobRequest
    owner: str
    need: Need
    submitted_ms: int
    files: dict[str, bytes] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    state: job_pb2.JobState = job_pb2.JOB_STATE_PENDING
    error: str = ""
    started_ms: int | None = None
    finished_ms: int | None = None
    failure_count: int = 0
    preemption_count: int = 0
    tasks: list[Task] = field(default_factory=list)

    @property
    def is_terminal(self) -> bool:
        return self.state not in LIVE_JOB

    @property
    def parent_id(self) -> str:
        return parse_job_name(self.job_id).parent_id

    @property
    def gang_level(self) -> str:
        """The attribute whose value all tasks must share; "" when they may go anywhere."""
        return self.request.coscheduling.group_by if self.request.HasField("coscheduling") else ""

    def task_counts(self) -> dict[str, int]:
        counts = Counter(friendly_name(job_pb2.TaskState.Name(task.state)) for task in self.tasks)
        return dict(counts)

    def outcome(self) -> tuple[job_pb2.JobState, str]:
        """State and error that follow from the tasks; the first rule that fits wins."""
        states = {task.state for task in self.tasks}
        if states == {job_pb2.TASK_STATE_SUCCEEDED}:
            return job_pb2.JOB_STATE_SUCCEEDED, ""
        if self.failure_count > self.request.max_task_failures:
            return job_pb2.JOB_STATE_FAILED, self._too_many_failures()
        if job_pb2.TASK_STATE_UNSCHEDULABLE in states:
            return job_pb2.JOB_STATE_UNSCHEDULABLE, self._error_of(job_pb2.TASK_STATE_UNSCHEDULABLE)
        if job_pb2.TASK_STATE_KILLED in states:
            return job_pb2.JOB_STATE_KILLED, self._error_of(job_pb2.TASK_STATE_KILLED)
        if all(task.is_terminal for task in self.tasks):
            return self._outcome_of_ended_tasks()
        # A job that ran never goes back to pending, not even while all its tasks wait for their next attempt.
        begun = self.state == job_pb2.JOB_STATE_RUNNING or any(task.is_active for task in self.tasks)
        return (job_pb2.JOB_STATE_RUNNING if begun else job_pb2.JOB_STATE_PENDING), ""

    def _outcome_of_ended_tasks(self) -> tuple[job_pb2.JobState, str]:
        lost = [task for task in self.tasks if task.state in WORKER_ENDS]
        if not lost:
            return job_pb2.JOB_STATE_FAILED, self._error_of(job_pb2.TASK_STATE_FAILED)
        causes = [task for task in lost if task.state != job_pb2.TASK_STATE_COSCHED_FAILED]
        return job_pb2.JOB_STATE_WORKER_FAILED, (causes or lost)[0].error

    def _error_of(self, state: job_pb2.TaskState) -> str:
        ended = [task for task in self.tasks if task.state == state]
        return min(ended, key=lambda task: task.finished_ms or 0).error if ended else ""

    def _too_many_failures(self) -> str:
        failed = [
            attempt for task in self.tasks for attempt in task.attempts if attempt.state == job_pb2.TASK_STATE_FAILED
        ]
        last = max(failed, key=lambda attempt: attempt.finished_ms or 0).error if failed else ""
        counted = f"failures={self.failure_count}, limit={self.request.max_task_failures}"
        text = f"Cumulative failed task attempts exceeded max_task_failures: {counted}"
        return f"{text}; {last}" if last else text


class Table:
    """All jobs by id, in the order of their submission."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._last_submitted_ms = 0

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))

    def get(self, job_id: str) -> Job | None:
        return self._jobs.get(job_id)

    def add(self, job: Job) -> None:
        self._jobs[job.job_id] = job

    def remove(self, job: Job) -> None:
        """Forget a job and its descendants."""
        for gone in [job, *self.descendants(job)]:
            self._jobs.pop(gone.job_id, None)

    def descendants(self, job: Job) -> list[Job]:
        return [other for other in self if other.job_id.startswith(f"{job.job_id}/")]

    def next_submitted_ms(self, now_ms: int) -> int:
        """Unique and growing, so that it tells two jobs of one name apart."""
        self._last_submitted_ms = max(now_ms, self._last_submitted_ms + 1)
        return self._last_submitted_ms

    def active_tasks_of(self, user: str) -> int:
        return sum(not task.is_terminal for job in self if job.owner == user for task in job.tasks)


def friendly_name(enum_name: str) -> str:
    """TASK_STATE_WORKER_FAILED and JOB_STATE_WORKER_FAILED as `worker_failed`."""
    return enum_name.partition("_STATE_")[2].lower()
