"""ListJobs and ListWorkers: filters, order and pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from fray_airflow.iris._gen import controller_pb2, job_pb2

from .status import BACKEND, CLUSTER, job_status, stamp
from .table import Job, Table, friendly_name
from .wire_error import WireError
from .workers import Worker, Workers

C = controller_pb2.Controller

MAX_LIMIT = 500
MAX_OFFSET = 5000

_SORT_KEYS: dict[int, Callable[[Job], Any]] = {
    C.JOB_SORT_FIELD_NAME: lambda job: job.request.name,
    C.JOB_SORT_FIELD_STATE: lambda job: job.state,
    C.JOB_SORT_FIELD_FAILURES: lambda job: job.failure_count,
    C.JOB_SORT_FIELD_PREEMPTIONS: lambda job: job.preemption_count,
}


def list_jobs(query: C.JobQuery, table: Table) -> C.ListJobsResponse:
    """A limit that is not set, or out of bounds, is MAX_LIMIT."""
    limit = query.limit if 1 <= query.limit <= MAX_LIMIT else MAX_LIMIT
    offset = max(query.offset, 0)
    if query.offset > MAX_OFFSET:
        raise WireError("invalid_argument", f"offset must be at most {MAX_OFFSET}, got {query.offset}")
    found = _sorted([job for job in table if _fits(job, query)], query)
    page = found[offset : offset + limit]
    return C.ListJobsResponse(
        jobs=[job_status(job, table, with_resources=False) for job in page],
        total_count=len(found),
        has_more=offset + len(page) < len(found),
    )


def list_workers(
    query: C.WorkerQuery, workers: Workers, running: dict[str, list[str]], now_ms: int
) -> C.ListWorkersResponse:
    """`running` holds the task ids per worker."""
    found = [worker for worker in workers if query.contains.lower() in worker.worker_id.lower()]
    page = found[query.offset : query.offset + query.limit] if query.limit > 0 else found[query.offset :]
    return C.ListWorkersResponse(
        workers=[_worker(worker, running.get(worker.worker_id, []), now_ms) for worker in page],
        total_count=len(found),
        has_more=query.offset + len(page) < len(found),
    )


def _fits(job: Job, query: C.JobQuery) -> bool:
    if query.scope == C.JOB_QUERY_SCOPE_CHILDREN and not query.parent_job_id:
        raise WireError("invalid_argument", "parent_job_id is required for scope CHILDREN")
    state = friendly_name(job_pb2.JobState.Name(job.state))
    return (
        (query.scope != C.JOB_QUERY_SCOPE_ROOTS or not job.parent_id)
        and (query.scope != C.JOB_QUERY_SCOPE_CHILDREN or job.parent_id == query.parent_job_id)
        and (not query.state_filter or query.state_filter.lower() == state)
        and _is_like(query.name_filter.lower(), job.request.name)
        and job.job_id.lower().startswith(query.job_id_prefix.lower())
        and query.backend_id in ("", BACKEND)
        and query.cluster in ("", CLUSTER)
    )


def _is_like(pattern: str, text: str) -> bool:
    """Whether a part of `text` fits: `%` and `_` come unescaped into the LIKE of Iris's SQL.

    >>> _is_like("a_c", "/u/abc/d"), _is_like("a%d", "/u/abc/d"), _is_like("a.c", "/u/abc/d")
    (True, True, False)
    """
    wildcards = {"%": ".*", "_": "."}
    return bool(re.search("".join(wildcards.get(each) or re.escape(each) for each in pattern), text, re.DOTALL))


def _sorted(jobs: Iterable[Job], query: C.JobQuery) -> list[Job]:
    """The newest come first unless another field or direction is asked for."""
    key = _SORT_KEYS.get(query.sort_field)
    descending = query.sort_direction == C.SORT_DIRECTION_DESC
    if key is None:
        descending = query.sort_direction != C.SORT_DIRECTION_ASC
    return sorted(jobs, key=key or (lambda job: job.submitted_ms), reverse=descending)


def _worker(worker: Worker, task_ids: list[str], now_ms: int) -> C.WorkerHealthStatus:
    group = worker.group
    metadata = job_pb2.WorkerMetadata(
        hostname="localhost",
        ip_address="127.0.0.1",
        cpu_count=group.cpu_millicores // 1000,
        memory_bytes=group.memory_bytes,
        disk_bytes=group.disk_bytes,
        tpu_name=worker.slice_id if group.tpu_chips else "",
        tpu_worker_id=str(worker.vm_index) if group.tpu_chips else "",
        gpu_count=group.gpus,
        gpu_name=group.variant if group.gpus else "",
        attributes={key: _attribute(value) for key, value in worker.attributes.items()},
    )
    if group.tpu_chips:
        metadata.device.tpu.variant, metadata.device.tpu.count = group.variant, group.tpu_chips
    elif group.gpus:
        metadata.device.gpu.variant, metadata.device.gpu.count = group.variant, group.gpus
    return C.WorkerHealthStatus(
        worker_id=worker.worker_id,
        # Stays true until the worker is removed; only its failures show that it is dead.
        healthy=True,
        consecutive_failures=0 if worker.lost_ms is None else 1 + (now_ms - worker.lost_ms) // 1000,
        last_heartbeat=stamp(now_ms if worker.lost_ms is None else worker.lost_ms),
        # The name says jobs, the values are tasks.
        running_job_ids=task_ids,
        address=worker.address,
        metadata=metadata,
        backend_id=BACKEND,
        scale_group=group.name,
    )


def _attribute(value: str | int) -> job_pb2.AttributeValue:
    if isinstance(value, str):
        return job_pb2.AttributeValue(string_value=value)
    return job_pb2.AttributeValue(int_value=value)
