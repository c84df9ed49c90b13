"""Why tasks wait, in Iris's words. Clients may show the text and must not read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .constraints import required
from .table import Job
from .workers import Need, Worker, by_attribute

NO_WORKERS = "No healthy workers available"
AUTOSCALER_SPEAKS_AFTER_MS = 1000


def reason(
    job: Job, count: int, matching: Sequence[Worker], workers: Sequence[Worker], free: Mapping[str, Need], now_ms: int
) -> str:
    """`count` tasks of `job` wait. Once the autoscaler has looked at them it adds its part: this fleet never grows."""
    if not workers:
        return NO_WORKERS
    says = _gang_reason(job, count, matching, free) if job.gang_level else _single_reason(job, matching)
    if now_ms - job.submitted_ms < AUTOSCALER_SPEAKS_AFTER_MS:
        return says
    return f"Scheduler: {says}\n\nAutoscaler: Unsatisfied autoscaler demand: {unmet(job, count, matching)}"


def unmet(job: Job, count: int, matching: Sequence[Worker]) -> str:
    """Why no slice is added for the waiting tasks."""
    sizes = {worker.group.name: worker.group.num_vms for worker in matching}
    if job.gang_level and sizes and count not in sizes.values():
        listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
        needs = f"job needs {count} tasks coscheduled but no matching group has num_vms={count}"
        return f"coschedule_mismatch: {needs} ({listed})"
    return "no_capacity: " + ", ".join(f"{name}=at_max_slices" for name in sizes or {"none": 0})


def _single_reason(job: Job, matching: Sequence[Worker]) -> str:
    keys = [rule.key for rule in required(job.request.constraints)]
    if not matching:
        return f"No workers match constraints: {keys}"
    cores = job.need.cpu_millicores / 1000
    need = f"need cpu={cores:g} cores, memory={job.need.memory_bytes}, constraints={keys}"
    return f"No worker matches constraints and has sufficient resources ({need})"


def _gang_reason(job: Job, count: int, matching: Sequence[Worker], free: Mapping[str, Need]) -> str:
    level = job.gang_level
    if not matching:
        return f"No workers match constraints: {[rule.key for rule in required(job.request.constraints)]}"
    groups = by_attribute(matching, level)
    if not groups:
        return f"Coscheduling: {len(matching)} workers match constraints but none have '{level}' attribute"
    value, members = max(groups.items(), key=lambda item: len(item[1]))
    if len(members) < count:
        return f"Coscheduling: need {count} workers in same '{level}' group, largest group has {len(members)}"
    return _full_group(job, count, value, members, free)


def _full_group(job: Job, count: int, value: str | int, members: Sequence[Worker], free: Mapping[str, Need]) -> str:
    lacking = [shortage for worker in members if (shortage := job.need.lacking(free[worker.worker_id]))]
    roomy = len(members) - len(lacking)
    first = (
        f"Coscheduling: need {count} workers in '{job.gang_level}' group '{value}', "
        f"only {roomy} of {len(members)} have capacity:"
    )
    if not lacking:
        # Room for the tasks and yet they wait: held back by a test's script.
        return first
    return f"{first}\n{lacking[0][-1]} - {len(lacking)} worker(s)"
