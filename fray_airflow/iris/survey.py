"""The calls that a Capacity is made of. Nothing here does I/O: the clients answer what is yielded."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from fray_airflow.capacity import Capacity, busy_jobs, capacity_of
from fray_airflow.errors import IrisError, IrisUnavailableError
from fray_airflow.iris import operations
from fray_airflow.iris.convert import resolve_coscheduling
from fray_airflow.iris.operations import Operation
from fray_airflow.resources import ResourceConfig

MAX_JOBS_ASKED = 100
"""Machines that run other jobs than these count as full: a look must not cost a large cluster a thousand calls."""

_HIDDEN = ("permission_denied", "unimplemented")


def survey(config: ResourceConfig, *, gpu_gang_level: str | None = None) -> Generator[Operation[Any], Any, Capacity]:
    """Two calls, and one for each job on a busy machine where that decides."""
    gang = resolve_coscheduling(config, config.replicas, gpu_gang_level=gpu_gang_level)
    level = gang.group_by if gang else ""
    scaling = yield from _visible(operations.scaling())
    workers = yield from _visible(operations.workers(limit=0))
    capacity = capacity_of(config, scaling, workers, gang_level=level)
    if capacity.free >= capacity.wanted or not capacity.possible:
        return capacity
    used = {}
    for job_id in busy_jobs(config, workers)[:MAX_JOBS_ASKED]:
        try:
            used[job_id] = yield operations.job_need(job_id)
        except IrisUnavailableError:
            raise
        except IrisError:
            # Gone meanwhile, or not ours to see: its machines count as full.
            continue
    return capacity_of(config, scaling, workers, gang_level=level, used=used) if used else capacity


def _visible[T](operation: Operation[T]) -> Generator[Operation[T], T, T]:
    try:
        return (yield operation)
    except IrisError as error:
        if error.code not in _HIDDEN:
            raise
        raise type(error)(
            "This cluster does not tell what is free: that takes GetAutoscalerStatus and ListWorkers, and the "
            f"connection's user was refused. Ask for the right to call both. {error.message}",
            code=error.code,
        ) from None
