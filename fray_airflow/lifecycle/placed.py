"""Whether all replicas of a job are placed: counted by replica, since a job counts as RUNNING with its first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from fray_airflow.lifecycle.report import placement
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import JobStatus, TaskStatus, Worker


@dataclass(frozen=True, slots=True)
class Placed:
    """One look. `failure` says why placement cannot come any more; `succeeded`, that the job is done."""

    tasks: tuple[TaskStatus, ...] = ()
    expected: int = 0
    reason: str = ""
    failure: str = ""
    succeeded: bool = False
    placement: tuple[dict[str, Any], ...] = ()

    @property
    def count(self) -> int:
        # A replica that is done counts, even when its worker is gone since.
        return sum(task.placed or task.state is TaskState.SUCCEEDED for task in self.tasks)

    @property
    def complete(self) -> bool:
        return bool(self.tasks) and self.count == max(self.expected, len(self.tasks))

    @property
    def settled(self) -> bool:
        return self.complete or bool(self.failure)

    @property
    def since(self) -> datetime | None:
        """When the replica that was placed last began: Iris's time of its present attempt, so it starts anew with
        another. None while one is placed and has not begun, or while not all are placed.
        """
        starts = [task.started_at for task in self.tasks]
        known = [start for start in starts if start is not None]
        return max(known) if self.complete and len(known) == len(starts) else None

    def held(self, stable_for: timedelta, now: datetime) -> bool:
        """Whether all replicas have kept their places for that long. A job that is done has nothing left to lose."""
        if not self.complete or not stable_for or self.succeeded:
            return self.complete
        return self.since is not None and now - self.since >= stable_for

    def located(self, workers: Sequence[Worker]) -> Placed:
        """With the slices and zones of its workers."""
        seen = Seen(tasks=self.tasks, workers={worker.worker_id: worker for worker in workers})
        return replace(self, placement=tuple(placement(seen)))


def placed_of(status: JobStatus, tasks: Sequence[TaskStatus]) -> Placed:
    succeeded = status.state is JobState.SUCCEEDED
    seen = Placed(tuple(tasks), status.task_count, " ".join(status.pending_reason.split()), succeeded=succeeded)
    if status.state.finished and not succeeded:
        return replace(seen, failure=ended(status))
    return seen


def ended(status: JobStatus) -> str:
    """What is said of a job that ended in another way than was waited for."""
    text = f"{status.job_id} ended as {status.state}: {' '.join(status.error.split()) or 'no reason given'}"
    return f"{text}. Look at the task that submitted it."
