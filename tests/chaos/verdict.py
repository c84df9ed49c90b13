"""Whether Airflow's end and Iris's end are the same story, from what both say themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sightings import Job, Sightings
from workload import Work

from fray_airflow.iris import JobState

_ENDED = {JobState.SUCCEEDED: "success", JobState.FAILED: "failed"}


@dataclass(frozen=True)
class Violation:
    rule: str
    evidence: str


@dataclass(frozen=True)
class Totals:
    task_instances: int
    tries: int
    launched: int
    expected: int
    samples: int
    missed: int


@dataclass(frozen=True)
class Facts:
    """`rows`: Airflow's task instances by `task_id/map_index`. `returned`: reads what one returned.

    `outage_errors`: of tries that ended because Iris was away.
    """

    work: list[Work]
    rows: Mapping[str, Mapping[str, Any]]
    seen: Sightings
    returned: Callable[[str, int], Any]
    outage_errors: Sequence[str] = ()


def totals(facts: Facts) -> Totals:
    return Totals(
        task_instances=len(facts.work),
        tries=sum(row["try_number"] for row in facts.rows.values()),
        launched=len(facts.seen.jobs),
        expected=sum(1 + len(_reasons(facts.seen.of(work.key))) for work in facts.work),
        samples=facts.seen.samples,
        missed=facts.seen.missed,
    )


def judge(facts: Facts) -> list[Violation]:
    found = list(_strangers(facts))
    found += [Violation("two live jobs", text) for text in facts.seen.doubles.values()]
    # The operator tolerates an outage of an hour, and none here lasts a minute.
    if facts.outage_errors:
        text = f"{len(facts.outage_errors)} tries, the first in {facts.outage_errors[0]}"
        found.append(Violation("gave up in an outage", text))
    found += [Violation("left running", str(job)) for job in facts.seen.live()]
    if (sums := totals(facts)).launched != sums.expected:
        found.append(Violation("wrong count", f"{sums.launched} jobs were launched, {sums.expected} are accounted for"))
    for work in facts.work:
        jobs, row = facts.seen.of(work.key), facts.rows.get(work.key)
        found += [Violation(rule, f"{work.key}: {text}") for rule, text in _of_one(work, jobs, row)]
        found += [Violation("wrong result", text) for text in _result(facts, work, jobs, row)]
    return found


def _reasons(jobs: list[Job]) -> list[Job]:
    """Jobs that were rightly followed by another: they ended badly before it came."""
    return [before for before, after in pairwise(jobs) if _failed(before) and not _overlap(before, after)]


def _of_one(work: Work, jobs: list[Job], row: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if row is None or row["state"] not in ("success", "failed"):
        yield "task not ended", f"Airflow says {row['state'] if row else 'nothing'}"
        return
    if not jobs:
        yield "lost job", f"Airflow says {row['state']} after try {row['try_number']}, Iris has no job"
        return
    told = " | ".join(map(str, jobs))
    for before, after in pairwise(jobs):
        if _overlap(before, after):
            yield "two live jobs", f"{after.job_id} was submitted while {before.job_id} went on: {told}"
        elif not _failed(before):
            yield "launched twice", f"{before.job_id} ended {before.state}, then came {after.job_id}: {told}"
    out_of_tries = row["state"] == "failed" and jobs[-1].state is JobState.KILLED
    if row["state"] != _ENDED.get(jobs[-1].state) and not out_of_tries:
        yield "ended otherwise", f"Airflow says {row['state']} (try {row['try_number']}), its jobs: {told}"
    # Nobody marks, clears or times out a task here. A task without a further try takes its job along.
    for job in jobs[:-1] if out_of_tries else jobs:
        if job.state is JobState.KILLED:
            yield "killed unasked", str(job)
    wanted = JobState.FAILED if work.exit_code else JobState.SUCCEEDED
    if jobs[-1].state is not wanted:
        yield "wrong end", f"{jobs[-1]} instead of {wanted}"
    if len({job.place for job in jobs}) > 1 or not jobs[0].place:
        yield "wrong token", f"jobs of one task instance differ in the place of their tokens: {told}"


def _result(facts: Facts, work: Work, jobs: list[Job], row: Mapping[str, Any] | None) -> Iterator[str]:
    if row is None or row["state"] != "success" or not jobs:
        return
    returned = facts.returned(work.task_id, work.map_index) or {}
    wanted = {"job_id": jobs[-1].job_id, "state": "SUCCEEDED", "result": {"number": work.number}}
    if {name: returned.get(name) for name in wanted} != wanted:
        yield f"{work.key}: returned {returned}, wanted {wanted}"


def _strangers(facts: Facts) -> Iterator[Violation]:
    known, places = {work.key for work in facts.work}, {}
    for job in facts.seen.jobs.values():
        if job.task not in known:
            yield Violation("job of nobody", str(job))
        if places.setdefault(job.place, job.task) != job.task:
            yield Violation("wrong token", f"{job} has the place of {places[job.place]}")


def _failed(job: Job) -> bool:
    return job.state in (JobState.FAILED, JobState.KILLED, JobState.WORKER_FAILED)


def _overlap(before: Job, after: Job) -> bool:
    """By Iris's own times, which miss nothing between two samples. A replaced job was ended by its replacement."""
    if before.gone:
        return False
    return before.finished_at is None or before.finished_at > after.submitted_at
