"""Whether all replicas of a job are placed: counted by replica, since a job counts as RUNNING with its first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fray_airflow.lifecycle.report import placement
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import JobStatus, TaskStatus, Worker


@dataclass(frozen=True, slots=True)
class Placed:
    """One look. `failure` says why placement cannot come any more."""

    tasks: tuple[TaskStatus, ...] = ()
    expected: int = 0
    reason: str = ""
    failure: str = ""
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

    def located(self, workers: Sequence[Worker]) -> Placed:
        """With the slices and zones of its workers."""
        seen = Seen(tasks=self.tasks, workers={worker.worker_id: worker for worker in workers})
        return replace(self, placement=tuple(placement(seen)))


def placed_of(status: JobStatus, tasks: Sequence[TaskStatus]) -> Placed:
    seen = Placed(tuple(tasks), status.task_count, " ".join(status.pending_reason.split()))
    if status.state.finished and status.state is not JobState.SUCCEEDED:
        text = f"{status.job_id} ended as {status.state}: {status.error or 'no reason given'}"
        return replace(seen, failure=f"{text}. Look at the task that submitted it.")
    return seen
