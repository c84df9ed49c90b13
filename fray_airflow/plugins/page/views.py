"""What the page shows, as JSON. Times are epoch milliseconds, or null; every text is text and never markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fray_airflow.links import job_url
from fray_airflow.plugins.page.launches import Launched
from fray_airflow.plugins.page.recent import Heard
from fray_airflow.status import AttemptStatus, JobStatus, TaskStatus, Worker

if TYPE_CHECKING:
    from fray_airflow.iris._gen.vm_pb2 import AutoscalerStatus, ScaleGroupStatus, SliceInfo

_LONGEST = 2000
"""Characters of an error: its end tells more than its start, and one job must not fill the page."""

_COMING = ("requesting", "booting", "initializing")


def launch(launched: Launched, jobs: Mapping[str, Heard], dashboard_url: str | None) -> dict[str, Any]:
    return {
        "dag_id": launched.dag_id,
        "run_id": launched.run_id,
        "task_id": launched.task_id,
        "map_index": launched.map_index,
        "conn_id": launched.conn_id,
        "task_state": launched.task_state,
        "try_number": launched.try_number,
        "jobs": [job(job_id, jobs[job_id], dashboard_url) for job_id in launched.job_ids],
    }


def job(job_id: str, heard: Heard, dashboard_url: str | None) -> dict[str, Any]:
    """`state` is null while nothing is known of the job."""
    told: dict[str, Any] = {"id": job_id, "state": None, "url": _web(dashboard_url, job_id), **news(heard)}
    status: JobStatus | None = heard.value
    if status is None:
        return told
    return told | {
        "state": str(status.state),
        "ended": status.state.finished,
        "submitted": _ms(status.submitted_at),
        "started": _ms(status.started_at),
        "finished": _ms(status.finished_at),
        "replicas": status.task_count,
        "counts": {name: count for name, count in status.task_state_counts.items() if count},
        # Iris repeats the error here when the job has ended.
        "pending_reason": "" if status.state.finished else _cut(status.pending_reason),
        "error": _cut(status.error),
        "failures": status.failure_count,
        "preemptions": status.preemption_count,
        "band": status.band,
    }


def news(heard: Heard) -> dict[str, Any]:
    """How fresh an answer is."""
    return {"at": round(heard.at * 1000) or None, "problem": heard.problem, "code": heard.code}


def replicas(tasks: Sequence[TaskStatus], slices: Mapping[str, str], *, offset: int, limit: int) -> dict[str, Any]:
    """A page of a job's replicas; `slices` are by worker."""
    return {
        "total": len(tasks),
        "offset": offset,
        "rows": [_replica(task, slices) for task in tasks[offset : offset + limit]],
    }


def slices_of(workers: Iterable[Worker], status: AutoscalerStatus | None) -> dict[str, str]:
    """The slice of each worker: TPU hosts say it themselves, of others the autoscaler knows it."""
    known = {
        vm.worker_id: each.slice_id
        for group in (status.groups if status is not None else ())
        for each in group.slices
        for vm in each.vms
    }
    said = {
        worker.worker_id: str(worker.attributes["tpu-name"]) for worker in workers if "tpu-name" in worker.attributes
    }
    return known | said


def cluster(status: AutoscalerStatus, workers: Sequence[Worker]) -> dict[str, Any]:
    """Slices of each group by what they are good for now, and what nobody has room for."""
    groups = [_group(group, workers) for group in status.groups]
    unmet = Counter(
        (entry.entry.device_variant or entry.entry.device_type or "cpu")
        for entry in status.last_routing_decision.unmet_entries
    )
    return {
        "groups": groups,
        # Whose tasks they are is for those to see who may see those jobs.
        "unmet": [{"device": device, "count": count} for device, count in unmet.most_common()],
        "workers": {"total": len(workers), "healthy": sum(worker.healthy for worker in workers)},
    }


def worker_page(
    workers: Sequence[Worker], slices: Mapping[str, str], *, group: str, offset: int, limit: int
) -> dict[str, Any]:
    chosen = [worker for worker in workers if not group or worker.scale_group == group]
    rows = [
        {
            "id": worker.worker_id,
            "group": worker.scale_group,
            "slice": slices.get(worker.worker_id, ""),
            "region": str(worker.attributes.get("region", "")),
            "zone": str(worker.attributes.get("zone", "")),
            "healthy": worker.healthy,
            "tasks": len(worker.task_ids),
        }
        for worker in chosen[offset : offset + limit]
    ]
    return {"total": len(chosen), "offset": offset, "rows": rows}


def _group(group: ScaleGroupStatus, workers: Sequence[Worker]) -> dict[str, Any]:
    mine = [worker for worker in workers if worker.scale_group == group.name]
    return {
        "name": group.name,
        "device": group.device_variant or group.device_type or "cpu",
        "region": group.region,
        "slices": [{"id": each.slice_id, "state": _slice_state(each), "vms": len(each.vms)} for each in group.slices],
        "workers": len(mine),
        "healthy": sum(worker.healthy for worker in mine),
        "reason": group.availability_reason,
    }


def _slice_state(each: SliceInfo) -> str:
    """free, busy, booting, degraded or failed; what a newer Iris says is carried as it is."""
    if each.state in _COMING:
        return "booting"
    if each.state not in ("ready", ""):
        return str(each.state)
    known = {"available": "free", "idle": "free", "in_use": "busy"}
    if each.capacity_status:
        return known.get(each.capacity_status, str(each.capacity_status))
    return "free" if each.idle else "busy"


def _replica(task: TaskStatus, slices: Mapping[str, str]) -> dict[str, Any]:
    return {
        "index": task.index,
        "state": str(task.state),
        "worker": task.worker_id,
        "slice": slices.get(task.worker_id, ""),
        "exit_code": task.exit_code,
        "error": _cut(task.error),
        "pending_reason": _cut(task.pending_reason),
        "started": _ms(task.started_at),
        "finished": _ms(task.finished_at),
        # Iris lists some attempts only, but counts them from 0.
        "tries": 1 + max((attempt.attempt_id for attempt in task.attempts), default=-1),
        "attempts": [_attempt(attempt, slices) for attempt in task.attempts] if len(task.attempts) > 1 else [],
    }


def _attempt(attempt: AttemptStatus, slices: Mapping[str, str]) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt_id,
        "state": str(attempt.state),
        "worker": attempt.worker_id,
        "slice": slices.get(attempt.worker_id, ""),
        "exit_code": attempt.exit_code,
        "error": _cut(attempt.error),
        "started": _ms(attempt.started_at),
        "finished": _ms(attempt.finished_at),
    }


def _web(dashboard_url: str | None, job_id: str) -> str | None:
    """No scheme but the web's: a browser would run `javascript:`."""
    url = job_url(dashboard_url, job_id) if dashboard_url else ""
    return url if urlsplit(url).scheme in ("http", "https") else None


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else "…" + text[-_LONGEST:]


def _ms(moment: datetime | None) -> int | None:
    return round(moment.timestamp() * 1000) if moment else None
