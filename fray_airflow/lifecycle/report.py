"""What an operator returns of a job: plain JSON values, small however many replicas there are."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from fray_airflow.lifecycle.delivery import delivered
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.status import TaskStatus, Worker

MAX_REPLICAS_LISTED = 64
"""Above this, placement is told per slice."""


def report(plan: Plan, seen: Seen) -> dict[str, Any]:
    """The facts of a launch whose job succeeded. Seconds are Iris's times, not ours.

    `chip_seconds` are those of the attempts that Iris still lists: of a replica that was lost or preempted several
    times, earlier attempts are missing.
    """
    status = seen.status
    if status is None:
        raise ValueError("a job that was not seen has no report")
    running = _all_running(seen.tasks)
    # Only where there was a choice.
    rung = {"rung": seen.round.rung} if len(plan.rungs) > 1 else {}
    return {
        "job_id": status.job_id,
        "state": status.state.name,
        **rung,
        "exit_code": 0,
        "placement": placement(seen),
        "queue_seconds": _between(status.submitted_at, running),
        "run_seconds": _between(running, status.finished_at),
        "failure_count": status.failure_count,
        "preemption_count": status.preemption_count,
        "chip_seconds": round(_attempt_seconds(seen.tasks) * plan.rungs[seen.round.rung].chips_per_replica, 3),
        "result": delivered(plan, seen),
    }


def placement(seen: Seen) -> list[dict[str, Any]]:
    """Per replica its worker, slice, place and machine; for many replicas the number on each slice.

    `device` is the variant, or "cpu"; `preemptible` is None where the worker does not say.
    """
    rows = [_row(task, seen.workers.get(task.worker_id)) for task in seen.tasks if task.worker_id]
    if len(rows) <= MAX_REPLICAS_LISTED:
        return rows
    counts = Counter(row["slice"] for row in rows)
    return [{"slice": name, "replicas": count} for name, count in sorted(counts.items())]


def _row(task: TaskStatus, worker: Worker | None) -> dict[str, Any]:
    attributes = worker.attributes if worker else {}
    return {
        "replica": task.index,
        "worker": task.worker_id,
        "slice": str(attributes.get("tpu-name", "")),
        "region": str(attributes.get("region", "")),
        "zone": str(attributes.get("zone", "")),
        "device": str(attributes.get("device-variant") or attributes.get("device-type", "")),
        "preemptible": {"true": True, "false": False}.get(str(attributes.get("preemptible", "")).lower()),
    }


def _all_running(tasks: tuple[TaskStatus, ...]) -> datetime | None:
    """When the last replica first ran."""
    starts = [_first_start(task) for task in tasks]
    known = [start for start in starts if start is not None]
    return max(known) if known and len(known) == len(starts) else None


def _first_start(task: TaskStatus) -> datetime | None:
    starts = [task.started_at, *(attempt.started_at for attempt in task.attempts)]
    return min((start for start in starts if start), default=None)


def _attempt_seconds(tasks: tuple[TaskStatus, ...]) -> float:
    return sum(
        (attempt.finished_at - attempt.started_at).total_seconds()
        for task in tasks
        for attempt in task.attempts
        if attempt.started_at and attempt.finished_at
    )


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else round((end - start).total_seconds(), 3)
