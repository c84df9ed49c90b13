"""What a controller reports of a job: plain values, so that deciding what to do needs no protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fray_airflow.states import JobState, TaskState


@dataclass(frozen=True, slots=True)
class AttemptStatus:
    """One try of Iris to run a replica. Times are None until they happen."""

    attempt_id: int
    state: TaskState
    worker_id: str = ""
    exit_code: int = 0
    error: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    is_worker_failure: bool = False


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One replica. `worker_id` is "" while it is not placed.

    `attempts` are what Iris lists: the current one, and the latest failure of each kind (failed, worker lost). Earlier
    ones and preempted ones are not among them. `slice` and `offset` are set where a launch has a job per slice: which
    one this is, and how many replicas come before it.
    """

    task_id: str
    state: TaskState
    worker_id: str = ""
    exit_code: int = 0
    error: str = ""
    pending_reason: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempts: tuple[AttemptStatus, ...] = ()
    slice: int = 0
    offset: int = 0

    @property
    def index(self) -> int:
        return self.offset + int(self.task_id.rpartition("/")[2])

    @property
    def placed(self) -> bool:
        """On a worker now, or done there."""
        return bool(self.worker_id) and self.state is not TaskState.PENDING


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job. Its exit code is not here: Iris reports 0 for failed jobs too, so read it from the tasks.

    `request_env` is the environment that the job was submitted with, as the controller echoes it; `band` the priority
    band that it gave it. `slices` are the jobs of a launch that has one per slice, of which this is then the sum;
    `missing` of them are not there.
    """

    job_id: str
    state: JobState
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str = ""
    pending_reason: str = ""
    task_count: int = 0
    task_state_counts: Mapping[str, int] = field(default_factory=dict)
    failure_count: int = 0
    preemption_count: int = 0
    request_env: Mapping[str, str] = field(default_factory=dict)
    band: str = ""
    slices: tuple[JobStatus, ...] = ()
    missing: int = 0

    @property
    def survivors(self) -> bool:
        """Whether a launch that has come to an end still has a job that runs."""
        return self.state.finished and any(not each.state.finished for each in self.slices)


@dataclass(frozen=True, slots=True)
class Worker:
    """One machine. `attributes` are what constraints and coscheduling look at ("tpu-name", "region", ...).

    `failures` counts the latest calls in a row that it did not answer; Iris places nothing on it then, though it stays
    `healthy` until it is given up. `cpu_millicores`, `memory_bytes`, `accelerators`: all that it has, in use or not.
    """

    worker_id: str
    healthy: bool = True
    address: str = ""
    scale_group: str = ""
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)
    task_ids: tuple[str, ...] = ()
    failures: int = 0
    cpu_millicores: int = 0
    memory_bytes: int = 0
    accelerators: int = 0
