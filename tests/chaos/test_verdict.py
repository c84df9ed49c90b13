"""The judge of the chaos runs finds what it looks for: a harness that never complains proves nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sightings import Job
from verdict import Facts, judge, totals
from workload import Work

from fray_airflow.iris import JobState

START = datetime(2026, 1, 1, tzinfo=UTC)
WORK = Work("train", -1, deferrable=False, seconds=2, exit_code=0, number=7)


class Seen:
    """What the judge reads of Sightings."""

    def __init__(self, *jobs: Job, doubles: dict | None = None) -> None:
        self.jobs = {(job.job_id, job.submitted_at): job for job in jobs}
        self.doubles = doubles or {}
        self.samples, self.missed = 100, 0

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.live]

    def of(self, task: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.task == task]


def job(
    number: int = 1,
    state: JobState = JobState.SUCCEEDED,
    start: float = 0,
    end: float | None = 5,
    task: str = "train/-1",
    launch: str = "place.life",
) -> Job:
    finished = None if end is None else START + timedelta(seconds=end)
    return Job(f"/airflow/train-t{number}", START + timedelta(seconds=start), task, launch, state, finished)


def rules(*jobs: Job, state: str = "success", returned: dict | None = None, work: Work = WORK, **seen) -> set[str]:
    row = {"state": state, "try_number": 1}
    good = {"job_id": jobs[-1].job_id, "state": "SUCCEEDED", "result": {"number": 7}} if jobs else {}
    facts = Facts([work], {work.key: row}, Seen(*jobs, **seen), lambda task_id, map_index: returned or good)
    return {violation.rule for violation in judge(facts)}


def test_one_job_that_ends_as_its_task_does_is_right():
    assert not rules(job())


def test_a_failed_job_may_be_followed_by_another():
    assert not rules(job(1, JobState.FAILED, 0, 5), job(2, start=8, end=12))


def test_jobs_that_followed_a_failure_are_expected():
    seen = Seen(job(1, JobState.FAILED, 0, 5), job(2, start=8, end=12), job(3, start=20, end=22))
    told = totals(Facts([WORK], {}, seen, lambda task_id, map_index: None))
    assert (told.launched, told.expected) == (3, 2)


@pytest.mark.parametrize(
    ("rule", "jobs"),
    [
        ("lost job", []),
        ("launched twice", [job(1), job(2, start=8, end=12)]),
        ("two live jobs", [job(1, JobState.FAILED, 0, 10), job(2, start=8, end=12)]),
        ("two live jobs", [job(1, JobState.RUNNING, 0, None), job(2, start=8, end=12)]),
        ("left running", [job(1, JobState.RUNNING, 0, None)]),
        ("ended otherwise", [job(1, JobState.FAILED)]),
        ("killed unasked", [job(1, JobState.KILLED, 0, 5), job(2, start=8, end=12)]),
        ("wrong token", [job(1, JobState.FAILED), job(2, start=8, end=12, launch="elsewhere.life")]),
        ("job of nobody", [job(1), job(2, task="stranger/-1", launch="other.life")]),
        ("wrong token", [job(1), job(2, task="stranger/-1")]),
    ],
)
def test_a_violation_is_found(rule: str, jobs: list[Job]):
    assert rule in rules(*jobs)


def test_two_live_jobs_of_one_sample_are_a_violation():
    assert rules(job(), doubles={("a", "b"): "seen"}) == {"two live jobs"}


@pytest.mark.parametrize("state", ["running", "up_for_retry", None])
def test_a_task_that_has_not_ended_is_a_violation(state: str | None):
    assert rules(job(), state=state) == {"task not ended"}


def test_a_task_that_failed_although_its_job_succeeded_is_a_violation():
    assert rules(job(), state="failed") == {"ended otherwise"}


def test_a_task_that_returned_another_jobs_result_is_a_violation():
    assert rules(job(), returned={"job_id": "/airflow/other"}) == {"wrong result"}


def test_a_job_that_was_to_fail_must_not_succeed():
    fails = Work("train", -1, deferrable=False, seconds=2, exit_code=3, number=7)
    assert "wrong end" in rules(job(), work=fails)
