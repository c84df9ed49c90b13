"""One pass over the waiting tasks: who goes where, and why the others still wait."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fray_airflow.iris._gen import job_pb2

from . import pending
from .constraints import matches, required
from .table import PENDING, Job, Task
from .workers import Need, Worker, by_attribute

BANDS = (
    job_pb2.PRIORITY_BAND_SYSTEM,
    job_pb2.PRIORITY_BAND_PRODUCTION,
    job_pb2.PRIORITY_BAND_INTERACTIVE,
    job_pb2.PRIORITY_BAND_BATCH,
)
"""First wins."""

Free = dict[str, Need]
Assignment = tuple[Task, Worker]
Owned = tuple[Job, Task]


@dataclass
class Plan:
    """What a pass decided. `reasons` is by task id."""

    assigned: list[Assignment] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Eviction:
    """Room for `job` if `victims`, tasks of lower bands, go."""

    job: Job
    victims: list[Task]


def plan(
    jobs: Sequence[Job],
    workers: Sequence[Worker],
    now_ms: int,
    held_back: Callable[[Job], bool] = lambda job: False,
) -> Plan:
    """Pure. Raises TypeError while any waiting job orders a text: then nobody is placed, as in Iris."""
    waiting = [job for job in jobs if _pending_tasks(job)]
    candidates = {job.job_id: matching(job, workers) for job in waiting}
    free = {worker.worker_id: worker.free() for worker in workers}
    decided = Plan()
    for job in in_turn(waiting, jobs):
        found = [] if held_back(job) else place(job, candidates[job.job_id], free)
        decided.assigned += found
        placed = {task.index for task, _ in found}
        left = [task for task in _pending_tasks(job) if task.index not in placed]
        if left:
            reason = pending.reason(job, len(left), candidates[job.job_id], workers, free, now_ms)
            decided.reasons |= {task.task_id: reason for task in left}
    return decided


def find_eviction(jobs: Sequence[Job], workers: Sequence[Worker], free: Free) -> Eviction | None:
    """The first waiting job that would run if tasks of lower bands did not. None when room is coming anyway.

    A gang evicts whole gangs, a single task evicts single tasks. `free` counts what is being drained as free.
    """
    evictable = _evictable(jobs)
    # Mostly there is nobody to evict; looking at every waiting job would then be a waste at each tick.
    highest = min((_rank_of_band(job) for job in jobs if _pending_tasks(job)), default=len(BANDS))
    if not any(_rank_of_band(owner) > highest for owner, _ in evictable):
        return None
    for job in in_turn([job for job in jobs if _pending_tasks(job)], jobs):
        victims = _victims(job, evictable, matching(job, workers), dict(free))
        if victims:
            return Eviction(job, victims)
    return None


def _victims(job: Job, evictable: Iterable[Owned], candidates: Sequence[Worker], free: Free) -> list[Task]:
    """The first few whose going makes room for `job`; none when that is impossible, or not necessary."""
    victims: list[Task] = []
    for owner, victim in evictable:
        if _rank_of_band(owner) <= _rank_of_band(job) or bool(owner.gang_level) != bool(job.gang_level):
            continue
        if place(job, candidates, dict(free)):
            break
        victims.append(victim)
        for task in owner.tasks if owner.gang_level else [victim]:
            _release(task, owner.need, free)
    return victims if victims and place(job, candidates, dict(free)) else []


def matching(job: Job, workers: Iterable[Worker]) -> list[Worker]:
    """Workers that meet the constraints and have the device at all."""
    rules = required(job.request.constraints)
    return [worker for worker in workers if all(matches(rule, worker.attributes) for rule in rules)]


def in_turn(waiting: Iterable[Job], jobs: Iterable[Job]) -> list[Job]:
    """By band, then one job of each user in turn (who uses least comes first), then by submission."""
    spent = _chips_in_use(jobs)
    queued: dict[tuple[int, str], int] = defaultdict(int)
    order = []
    for job in sorted(waiting, key=lambda job: job.submitted_ms):
        band = _rank_of_band(job)
        turn = queued[band, job.owner]
        queued[band, job.owner] += 1
        order.append((band, turn, spent[job.owner], job.submitted_ms, job))
    return [entry[-1] for entry in sorted(order, key=lambda entry: entry[:-1])]


def place(job: Job, candidates: Sequence[Worker], free: Free) -> list[Assignment]:
    """Lay the waiting tasks onto workers and take the room from `free`."""
    placed = _place_gang if job.gang_level else _place_singly
    return placed(job, _pending_tasks(job), candidates, free)


def _place_singly(job: Job, tasks: Sequence[Task], candidates: Sequence[Worker], free: Free) -> list[Assignment]:
    found = []
    for task in tasks:
        worker = next((worker for worker in candidates if not job.need.lacking(free[worker.worker_id])), None)
        if worker is None:
            break
        free[worker.worker_id] = free[worker.worker_id].minus(job.need)
        found.append((task, worker))
    return found


def _place_gang(job: Job, tasks: Sequence[Task], candidates: Sequence[Worker], free: Free) -> list[Assignment]:
    """All waiting tasks or none, on workers that share one value of the level, in the order of their worker ids."""
    for members in by_attribute(candidates, job.gang_level).values():
        roomy = [worker for worker in members if not job.need.lacking(free[worker.worker_id])]
        if len(roomy) < len(tasks):
            continue
        chosen = sorted(roomy[: len(tasks)], key=rank)
        for worker in chosen:
            free[worker.worker_id] = free[worker.worker_id].minus(job.need)
        return list(zip(tasks, chosen, strict=True))
    return []


def rank(worker: Worker) -> tuple[int, str]:
    return worker.vm_index, worker.worker_id


def _pending_tasks(job: Job) -> list[Task]:
    return [] if job.is_terminal else [task for task in job.tasks if task.state == PENDING]


def _chips_in_use(jobs: Iterable[Job]) -> dict[str, int]:
    spent: dict[str, int] = defaultdict(int)
    for job in jobs:
        spent[job.owner] += sum(task.is_active for task in job.tasks) * (job.need.tpu_chips + job.need.gpus)
    return spent


def _evictable(jobs: Iterable[Job]) -> list[Owned]:
    """Running tasks, those of the lowest band and the latest job first. One stands for its gang."""
    found: list[Owned] = []
    for job in sorted(jobs, key=lambda job: (-_rank_of_band(job), -job.submitted_ms)):
        active = [] if job.is_terminal else [task for task in job.tasks if task.is_active]
        found += [(job, task) for task in (active[:1] if job.gang_level else active)]
    return found


def _rank_of_band(job: Job) -> int:
    return BANDS.index(job.request.priority_band)


def _release(task: Task, need: Need, free: Free) -> None:
    if task.is_active and task.attempts[-1].worker_id in free:
        worker_id = task.attempts[-1].worker_id
        free[worker_id] = free[worker_id].plus(need)
