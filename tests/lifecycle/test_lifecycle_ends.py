"""What an end means: its class, its facts, its message; and what a success reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from known_launch import JOB_ID, at, attempt, followed, plan, status, task

from fray_airflow.errors import (
    JobFailedError,
    JobKilledError,
    JobPreemptedError,
    JobTimeoutError,
    UnschedulableError,
)
from fray_airflow.lifecycle.ends import end_of, first_failure
from fray_airflow.lifecycle.placed import placed_of
from fray_airflow.lifecycle.report import MAX_REPLICAS_LISTED, placement, report
from fray_airflow.lifecycle.seen import Seen
from fray_airflow.logs import LogLine
from fray_airflow.rung import Rung
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import TaskStatus, Worker

FAILED, KILLED, DONE = TaskState.FAILED, TaskState.KILLED, TaskState.SUCCEEDED


def ended(state, *tasks, job_timeout=None, tail=(), **facts):
    seen = replace(followed(status(state, finished_at=at(100), **facts), *tasks), tail=tuple(tail))
    return end_of(plan(job_timeout=job_timeout), seen)


@pytest.mark.parametrize(
    ("state", "facts", "kind", "words"),
    [
        (JobState.FAILED, {"error": "it broke"}, JobFailedError, "ended as FAILED: it broke"),
        (JobState.FAILED, {}, JobFailedError, "Iris gives no reason"),
        (JobState.KILLED, {"error": "Terminated by user"}, JobKilledError, "KILLED by somebody outside Airflow"),
        (
            JobState.WORKER_FAILED,
            {"error": "Preempted by /p/int/0", "preemption_count": 3},
            JobPreemptedError,
            "lost its machines 3 times, more than its budget allows: Preempted by /p/int/0",
        ),
        (
            JobState.UNSCHEDULABLE,
            {"error": "Scheduling timeout exceeded"},
            UnschedulableError,
            "was never placed: Scheduling timeout exceeded",
        ),
        (JobState(77), {"error": "new"}, JobFailedError, "ended as UNKNOWN(77): new"),
    ],
)
def test_each_state_has_its_error(state, facts, kind, words):
    end = ended(state, **facts)
    assert end.result is None
    assert type(end.error) is kind
    assert (end.error.job_id, end.error.state, end.error.exit_code) == (JOB_ID, state.name, None)
    assert words in str(end.error)


def test_the_exit_code_is_that_of_the_replica_that_failed_first():
    """By the time of its end; replicas that were taken down with it do not count."""
    end = ended(
        JobState.FAILED,
        task(0, FAILED, attempt(0, FAILED, 1, 9, exit_code=1)),
        task(1, FAILED, attempt(0, FAILED, 1, 5, exit_code=7)),
        task(2, KILLED, attempt(0, KILLED, 1, 2)),
        task(3, TaskState.COSCHED_FAILED, attempt(0, TaskState.COSCHED_FAILED, 1, 3)),
    )
    assert isinstance(end.error, JobFailedError)
    assert end.error.exit_code == 7
    assert "replica 1 ended with exit code 7" in str(end.error)


def test_a_failed_attempt_of_a_killed_replica_counts():
    """Iris ends a job at its first failure unless a budget allows it, and kills the replica that was to be retried."""
    end = ended(JobState.FAILED, task(0, KILLED, attempt(0, FAILED, 1, 5, exit_code=7)))
    assert end.error.exit_code == 7


def test_an_attempt_without_an_end_failed_last():
    tasks = (task(0, FAILED, attempt(0, FAILED, exit_code=1)), task(1, FAILED, attempt(0, FAILED, 1, 5, exit_code=7)))
    assert first_failure(tasks).exit_code == 7


def test_a_replica_without_attempts_speaks_for_itself():
    failure = first_failure((TaskStatus(f"{JOB_ID}/4", FAILED, exit_code=2, error="x"),))
    assert (failure.replica, failure.exit_code, failure.error, failure.seconds) == (4, 2, "x", 0)


@pytest.mark.parametrize("code", [137, -9])
def test_a_sigkill_is_explained(code):
    end = ended(JobState.FAILED, task(0, FAILED, attempt(0, FAILED, 1, 5, exit_code=code)))
    assert f"replica 0 was killed (exit code {code}), most likely for want of memory. Raise ram." in str(end.error)


def test_a_replica_that_iris_could_not_start_says_why():
    end = ended(JobState.FAILED, task(0, FAILED, attempt(0, FAILED, error="ValueError: Invalid workdir file path")))
    assert end.error.exit_code == 0
    assert "ValueError: Invalid workdir file path. Iris could not run it" in str(end.error)


@pytest.mark.parametrize(
    ("seconds", "limit", "kind"),
    [
        (60, 60, JobTimeoutError),
        (90, 60, JobTimeoutError),
        (59, 60, JobFailedError),
        (90, None, JobFailedError),
    ],
)
def test_a_timeout_is_told_from_a_failure_by_how_long_the_attempt_ran(seconds, limit, kind):
    end = ended(
        JobState.FAILED, task(0, FAILED, attempt(0, FAILED, 5, 5 + seconds, error="x")), job_timeout=limit, error="x"
    )
    assert type(end.error) is kind


def test_an_attempt_whose_process_is_not_gone_yet_ran_until_the_job_ended():
    """Iris tells the end of an attempt that it stops seconds later than the end of the job."""
    stopped = attempt(0, FAILED, 40, None, error="Execution timeout exceeded")
    assert type(ended(JobState.FAILED, task(0, FAILED, stopped), job_timeout=60).error) is JobTimeoutError
    assert type(ended(JobState.FAILED, task(0, FAILED, stopped), job_timeout=61).error) is JobFailedError


def test_the_last_lines_are_in_the_message():
    lines = [LogLine(1, 0, "Traceback"), LogLine(1, 0, "x" * 900)]
    end = ended(JobState.FAILED, task(1, FAILED, attempt(0, FAILED, 1, 5, exit_code=1)), tail=lines)
    assert str(end.error).endswith(f"\nLast lines of replica 1:\n  Traceback\n  {'x' * 500}")


def test_a_reason_for_waiting_is_given_only_if_the_job_never_ran():
    waited = ended(JobState.UNSCHEDULABLE, task(0, TaskState.UNSCHEDULABLE, worker=""), pending_reason="no slice")
    ran = ended(JobState.FAILED, task(0, FAILED, attempt(0, FAILED, 1, 5, exit_code=1)), pending_reason="Exit code: 1")
    assert (waited.error.pending_reason, ran.error.pending_reason) == ("no slice", "")


def test_a_job_that_was_not_seen_has_no_end():
    with pytest.raises(ValueError, match="no end"):
        end_of(plan(), Seen())
    with pytest.raises(ValueError, match="no report"):
        report(plan(), Seen())


# Reports


def test_a_success_reports_its_times_by_iriss_own_clock():
    """Queued until the last replica first ran; chip seconds over all attempts, those that were preempted included."""
    seen = followed(
        status(JobState.SUCCEEDED, finished_at=at(50), failure_count=1, preemption_count=2),
        task(0, DONE, attempt(0, TaskState.PREEMPTED, 4, 10), attempt(1, DONE, 20, 50)),
        task(1, DONE, attempt(0, DONE, 6, 50)),
        seconds=60,
    )
    facts = report(plan(rungs=(Rung(chips_per_replica=4),)), replace(seen, has_result=True, result={"loss": 1}))
    assert facts == {
        "job_id": JOB_ID,
        "state": "SUCCEEDED",
        "exit_code": 0,
        "placement": facts["placement"],
        "queue_seconds": 6.0,
        "run_seconds": 44.0,
        "failure_count": 1,
        "preemption_count": 2,
        "chip_seconds": (6 + 30 + 44) * 4,
        "result": {"loss": 1},
    }


def test_times_that_are_not_known_stay_empty():
    facts = report(plan(), followed(status(JobState.SUCCEEDED, submitted_at=None), task(0, DONE)))
    assert (facts["queue_seconds"], facts["run_seconds"], facts["chip_seconds"]) == (None, None, 0)


WORKERS = {
    f"w{n}": Worker(f"w{n}", attributes={"tpu-name": f"slice-{n // 40}", "region": "r", "zone": "z"}) for n in range(99)
}


def test_placement_is_told_per_replica_up_to_a_limit_and_then_per_slice():
    tasks = tuple(task(n, DONE, worker=f"w{n}") for n in range(MAX_REPLICAS_LISTED + 1))
    rows = placement(Seen(tasks=tasks[:-1], workers=WORKERS))
    assert rows[41] == {
        "replica": 41,
        "worker": "w41",
        "slice": "slice-1",
        "region": "r",
        "zone": "z",
        "device": "",
        "preemptible": None,
    }
    assert len(rows) == MAX_REPLICAS_LISTED
    rows = placement(Seen(tasks=tasks, workers=WORKERS))
    assert rows == [{"slice": "slice-0", "replicas": 40}, {"slice": "slice-1", "replicas": 25}]


def test_a_worker_that_is_gone_leaves_its_name():
    rows = placement(Seen(tasks=(task(0, DONE, worker="gone"), task(1, TaskState.PENDING, worker=""))))
    assert rows == [
        {"replica": 0, "worker": "gone", "slice": "", "region": "", "zone": "", "device": "", "preemptible": None}
    ]


# Placed


@pytest.mark.parametrize(
    ("tasks", "count", "complete"),
    [
        ((), 0, False),
        ((task(0, TaskState.ASSIGNED), task(1, TaskState.PENDING, worker="")), 1, False),
        ((task(0, TaskState.ASSIGNED),), 1, False),
        ((task(0, TaskState.BUILDING), task(1, TaskState.RUNNING)), 2, True),
        ((task(0, DONE, worker=""), task(1, TaskState.RUNNING)), 2, True),
        ((task(0, TaskState.PENDING), task(1, TaskState.RUNNING)), 1, False),
    ],
)
def test_a_job_is_placed_when_every_replica_is(tasks, count, complete):
    """The job itself counts as RUNNING with its first one."""
    seen = placed_of(status(JobState.RUNNING, task_count=2, pending_reason="a\n\nb"), tasks)
    assert (seen.count, seen.complete, seen.settled, seen.reason) == (count, complete, complete, "a b")


def test_a_job_that_ended_badly_is_never_placed():
    seen = placed_of(status(JobState.KILLED, task_count=1, error="Terminated by user"), [task(0, KILLED, worker="")])
    assert seen.settled
    assert seen.failure.startswith(f"{JOB_ID} ended as KILLED: Terminated by user")


def test_a_placed_job_is_located_on_its_workers():
    seen = placed_of(status(JobState.RUNNING, task_count=1), [task(0, TaskState.RUNNING, worker="w7")])
    assert seen.located(list(WORKERS.values())).placement[0]["slice"] == "slice-0"


def test_a_placement_is_held_since_its_youngest_attempt():
    """A replica that is placed and has not begun holds nothing yet; a job that is done need not hold."""
    begun = [task(n, TaskState.RUNNING, attempt(0, TaskState.RUNNING, n * 10)) for n in range(2)]
    seen = placed_of(status(JobState.RUNNING, task_count=2), begun)
    assert [seen.held(timedelta(seconds=5), at(second)) for second in (14, 15)] == [False, True]
    assert seen.held(timedelta(0), at(10))
    fresh = placed_of(status(JobState.RUNNING, task_count=2), [begun[0], task(1, TaskState.ASSIGNED)])
    assert (fresh.complete, fresh.since, fresh.held(timedelta(seconds=5), at(99))) == (True, None, False)
    done = placed_of(status(JobState.SUCCEEDED, task_count=2), begun)
    assert done.held(timedelta(days=1), at(11))
