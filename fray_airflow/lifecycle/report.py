"""What an operator returns of a job: plain JSON values, small however many replicas there are."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from fray_airflow.lifecycle.delivery import delivered
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.rung import Rung
from fray_airflow.status import TaskStatus, Worker

MAX_REPLICAS_LISTED = 64
"""Above this, placement is told per slice."""


def report(plan: Plan, seen: Seen) -> dict[str, Any]:
    """The facts of a launch whose job succeeded. Seconds are Iris's times, not ours.

    `chip_seconds` are of the whole try. All else is of its last launch; only failures and preemptions also count the
    launches before it on the same choice of machines.
    """
    status = seen.status
    if status is None:
        raise ValueError("a job that was not seen has no report")
    queue_seconds, run_seconds = durations(seen)
    # Only where there was a choice.
    rung = {"rung": seen.round.rung} if len(plan.rungs) > 1 else {}
    return {
        "job_id": status.job_id,
        "state": status.state.name,
        **rung,
        "exit_code": 0,
        "placement": placement(seen),
        "queue_seconds": queue_seconds,
        "run_seconds": run_seconds,
        "failure_count": failure_count(seen),
        "preemption_count": preemption_count(seen),
        "chip_seconds": chip_seconds(plan, seen),
        "result": delivered(plan, seen),
    }


def durations(seen: Seen) -> tuple[float | None, float | None]:
    """Seconds until all replicas ran, and from then to the end of the job; None for what did not come to pass."""
    running, status = _all_running(seen.tasks), seen.status
    if status is None:
        return None, None
    return _between(status.submitted_at, running), _between(running, status.finished_at)


def failure_count(seen: Seen) -> int:
    """Attempts that failed: those of the last launch, and one for each launch that ended because a slice failed."""
    return (seen.status.failure_count if seen.status else 0) + seen.round.failures


def preemption_count(seen: Seen) -> int:
    """Those that Iris made good, and one for each launch that ended because a slice lost its machines."""
    return (seen.status.preemption_count if seen.status else 0) + seen.round.preemptions


def rung_of(plan: Plan, seen: Seen) -> Rung:
    """The choice of machines that the launch is on. A job from before the DAG changed may name one that is gone."""
    return plan.rungs[min(seen.round.rung, len(plan.rungs) - 1)]


def chip_seconds(plan: Plan, seen: Seen, now: datetime | None = None) -> float:
    """Run time times chips over all attempts of this try's launches: also of rungs that were given up, and of slices
    that were held in vain or began anew, since they cost as much.

    Only attempts that Iris still lists are known: of a replica that was lost several times within one job, earlier ones
    are missing. With `now`, those without an end are counted up to the job's, or to now.
    """
    status = seen.status
    until = status.finished_at if status is not None and status.state.finished and status.finished_at else now
    running = _attempt_seconds(seen.tasks, until if now is not None else None)
    return round(seen.round.chip_seconds + running * rung_of(plan, seen).chips_per_replica, 3)


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


def _attempt_seconds(tasks: tuple[TaskStatus, ...], until: datetime | None) -> float:
    spans = ((each.started_at, each.finished_at or until) for task in tasks for each in task.attempts)
    return sum(max(0.0, (end - start).total_seconds()) for start, end in spans if start and end)


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else round((end - start).total_seconds(), 3)
