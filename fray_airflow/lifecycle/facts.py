"""What can be told of a launch at any time, however it ended: for those who watch the tasks, not for their results."""

from __future__ import annotations

from typing import Any

from fray_airflow.lifecycle.ends import first_failure
from fray_airflow.lifecycle.plan import Plan
from fray_airflow.lifecycle.report import chip_seconds, durations, failure_count, placement, preemption_count, rung_of
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.lifecycle.slices import jobs_of
from fray_airflow.lifecycle.tally import Tally


def launch_facts(plan: Plan, seen: Seen, tally: Tally) -> dict[str, Any]:
    """Plain JSON values. What is not known is None, or empty.

    `failed_replica` and `exit_code` are those of the attempt that failed first, of a job that did not succeed.
    """
    rung, status = rung_of(plan, seen), seen.status
    failure = first_failure(seen.tasks) if seen.finished_at is not None and not seen.succeeded else None
    queue_seconds, run_seconds = durations(seen)
    rows = placement(seen)
    return {
        "job_id": seen.job_id,
        "job_ids": jobs_of(plan, seen) if seen.job_id else [],
        "state": status.state.name if status else "",
        "adopted": seen.adopted,
        "rung": seen.round.rung,
        "machines": rung.name,
        "device": rung.device,
        "replicas": rung.replicas,
        "slices": sorted({row["slice"] for row in rows if row["slice"]}),
        "placement": rows,
        "queue_seconds": queue_seconds,
        "run_seconds": run_seconds,
        "failure_count": failure_count(seen),
        "preemption_count": preemption_count(seen),
        "chip_seconds": chip_seconds(plan, seen),
        "failed_replica": failure.replica if failure else None,
        "exit_code": failure.exit_code if failure else 0 if seen.succeeded else None,
        **tally.to_json(),
    }
