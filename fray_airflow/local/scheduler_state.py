"""GetSchedulerState: what waits and what runs, counted by band, user and job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller as C

from .status import BACKEND
from .table import PENDING, Job


def scheduler_state(jobs: Iterable[Job]) -> C.GetSchedulerStateResponse:
    """Nobody here has a budget, so that every job is in the band that it asked for."""
    waiting: Counter[tuple[job_pb2.PriorityBand, str, str]] = Counter()
    running: Counter[tuple[job_pb2.PriorityBand, str, str, str]] = Counter()
    for job in jobs:
        if job.is_terminal:
            continue
        for task in job.tasks:
            of_job = (job.request.priority_band, job.owner, job.job_id)
            if task.state == PENDING:
                waiting[of_job] += 1
            elif task.state == job_pb2.TASK_STATE_RUNNING:
                running[*of_job, task.attempts[-1].worker_id] += 1
    return C.GetSchedulerStateResponse(
        total_pending=waiting.total(),
        total_running=running.total(),
        pending_buckets=[
            C.PendingTaskBucket(band=band, user_id=user, job_id=job_id, count=count, backend_id=BACKEND)
            for (band, user, job_id), count in waiting.items()
        ],
        running_buckets=[
            C.RunningTaskBucket(
                band=band, user_id=user, job_id=job_id, worker_id=worker, count=count, backend_id=BACKEND
            )
            for (band, user, job_id, worker), count in running.items()
        ],
    )
