"""How jobs, tasks and attempts end, and what that leaves in states, counts and texts."""

from __future__ import annotations

import pytest

from fray_airflow.iris._gen import time_pb2
from fray_airflow.local import Fleet, Outcome
from fray_airflow.local.timing import Timing


def gang(job, **fields):
    return job(tpu="v5p-16", replicas=2, gang="tpu-name", **fields)


def seconds(number):
    return time_pb2.Duration(milliseconds=round(number * 1000))


def test_a_job_passes_through_every_state(iris, job):
    """A task is pending, assigned, building, running, and then done; the job runs from the assignment on."""
    iris.script("j", Outcome.succeed(seconds=1))
    iris.launch(job())
    seen = []
    for _ in range(60):
        pair = (iris.state("/a/j"), iris.task_states("/a/j")[0])
        if pair not in seen:
            seen.append(pair)
        iris.run()
    assert seen == [
        ("PENDING", "PENDING"),
        ("RUNNING", "ASSIGNED"),
        ("RUNNING", "BUILDING"),
        ("RUNNING", "RUNNING"),
        ("SUCCEEDED", "SUCCEEDED"),
    ]
    status = iris.status("/a/j")
    assert (status.exit_code, status.error, status.completed_count) == (0, "", 1)


def test_an_exit_code_stays_with_the_task(iris, job):
    """The job's exit code is 0 whatever happened, and its pending reason repeats the error."""
    iris.script("j", Outcome.fail(3, stderr=["warning", "err"]))
    iris.launch(job())
    assert iris.until_ended("/a/j") == "FAILED"
    status, (task,) = iris.status("/a/j"), iris.tasks("/a/j")
    assert (task.exit_code, task.error) == (3, "Exit code: 3. stderr: err")
    assert status.exit_code == 0
    assert status.error == (
        "Cumulative failed task attempts exceeded max_task_failures: failures=1, limit=0; Exit code: 3. stderr: err"
    )
    assert status.pending_reason == status.error
    assert status.failure_count == 1


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (9, "Exit code: 9"),
        (-9, "Exit code: -9"),
        (137, "Exit code 137: killed by SIGKILL (possibly OOM or resource limit)"),
    ],
)
def test_a_silent_failure_is_told_by_its_code(iris, job, code, text):
    iris.script("j", Outcome.fail(code))
    iris.launch(job())
    iris.until_ended("/a/j")
    assert iris.tasks("/a/j")[0].error == text


def test_a_retry_keeps_the_job_running_and_the_error_visible(iris, job):
    """While it waits for its next attempt a task has no worker; after the success it still shows the old error."""
    iris.script("j", Outcome.fail(7), Outcome.stay_pending(seconds=1), Outcome.succeed())
    iris.launch(job(max_retries_failure=1, max_task_failures=1))
    iris.until(lambda: iris.status("/a/j").failure_count == 1)
    (task,) = iris.tasks("/a/j")
    assert iris.state("/a/j") == "RUNNING"
    assert iris.status("/a/j").pending_reason == ""
    assert (task.can_be_scheduled, task.worker_id, task.current_attempt_id) == (True, "", 0)
    assert task.pending_reason == "Retrying (attempt 1, last: task_state_failed)"
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    (task,) = iris.tasks("/a/j")
    assert iris.attempts("/a/j") == ["FAILED", "SUCCEEDED"]
    assert (task.error, task.exit_code) == ("Exit code: 7", 0)


def test_retries_are_useless_without_tolerated_failures(iris, job):
    """max_task_failures counts attempts, so the first failure ends the job, and the task waiting to retry is killed."""
    iris.script("j", Outcome.fail(7))
    iris.launch(job(max_retries_failure=2))
    assert iris.until_ended("/a/j") == "FAILED"
    assert iris.task_states("/a/j") == ["KILLED"]
    assert iris.attempts("/a/j") == ["FAILED"]


def test_tolerated_failures_let_the_others_finish_and_the_job_fails(iris, job):
    iris.script("j", Outcome.fail(4, seconds=1, replica=0))
    iris.launch(job(replicas=2, max_task_failures=5))
    assert iris.until_ended("/a/j") == "FAILED"
    assert iris.task_states("/a/j") == ["FAILED", "SUCCEEDED"]
    assert iris.status("/a/j").error == "Exit code: 4"


def test_one_failure_too_many_kills_the_rest(iris, job):
    iris.script("j", Outcome.fail(4, replica=0))
    iris.launch(job(replicas=3))
    iris.until_ended("/a/j")
    assert iris.task_states("/a/j") == ["FAILED", "KILLED", "KILLED"]
    assert iris.tasks("/a/j")[1].error == iris.status("/a/j").error


def test_terminating_kills_at_once_and_frees_later(iris, job):
    """The state changes with the call; the attempt's end and the room come when the process has gone."""
    iris.script("j", Outcome.hang())
    iris.launch(gang(job))
    iris.until_running("/a/j")
    iris.terminate("/a/j")
    status, tasks = iris.status("/a/j"), iris.tasks("/a/j")
    assert (iris.state("/a/j"), status.error) == ("KILLED", "Terminated by user")
    assert status.preemption_count == 2
    assert status.completed_count == 2
    assert [(task.exit_code, task.error) for task in tasks] == [(0, "Terminated by user")] * 2
    assert not tasks[0].attempts[0].HasField("finished_at")
    iris.run(1)
    assert iris.tasks("/a/j")[0].attempts[0].HasField("finished_at")


def test_terminating_twice_is_no_error(iris, job):
    iris.launch(job())
    iris.until_ended("/a/j")
    iris.terminate("/a/j")
    assert iris.state("/a/j") == "SUCCEEDED"


def test_terminating_a_waiting_job_leaves_no_attempts(iris, job):
    iris.script("j", Outcome.stay_pending())
    iris.launch(job())
    iris.run(1)
    iris.terminate("/a/j")
    (task,) = iris.tasks("/a/j")
    assert (task.current_attempt_id, len(task.attempts)) == (-1, 0)
    assert iris.task_states("/a/j") == ["KILLED"]


def test_a_scheduling_timeout_counts_from_submission(iris, job):
    iris.launch(job(require={"nobody": "has"}, scheduling_timeout=seconds(3)))
    began = iris.now
    assert iris.until_ended("/a/j") == "UNSCHEDULABLE"
    assert 3 <= iris.now - began < 3.2
    assert iris.status("/a/j").error == "Scheduling timeout exceeded (Duration(3.000s))"
    assert iris.task_states("/a/j") == ["UNSCHEDULABLE"]


def test_a_scheduling_timeout_also_ends_a_job_that_waits_again(iris, job):
    """It is not about the first placement: a preempted task that waits past it is given up."""
    iris.script("j", Outcome.preempt(seconds=2), Outcome.stay_pending())
    iris.launch(job(max_retries_preemption=5, scheduling_timeout=seconds(3)))
    assert iris.until_ended("/a/j") == "UNSCHEDULABLE"


def test_a_timeout_is_noticed_by_the_sweep_and_never_retried(make_iris, job):
    iris = make_iris(timing=Timing(sweep_seconds=10))
    iris.script("j", Outcome.hang())
    iris.launch(job(timeout=seconds(2), max_retries_failure=3, max_task_failures=3))
    began = iris.now
    assert iris.until_ended("/a/j") == "FAILED"
    assert 2 < iris.now - began <= 20.2
    (task,) = iris.tasks("/a/j")
    assert (task.error, iris.attempts("/a/j")) == ("Execution timeout exceeded", ["FAILED"])


def test_a_lost_worker_is_noticed_after_a_while_and_the_task_runs_elsewhere(iris, job):
    iris.script("j", Outcome.lose_worker(), Outcome.succeed())
    iris.launch(job(max_retries_preemption=1))
    iris.until_running("/a/j")
    lost = iris.tasks("/a/j")[0].worker_id
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    (task,) = iris.tasks("/a/j")
    first = task.attempts[0]
    assert iris.attempts("/a/j") == ["WORKER_FAILED", "SUCCEEDED"]
    assert first.error == f"Worker {lost} failed: worker reconcile failure threshold exceeded"
    assert (first.is_worker_failure, first.worker_id) == (True, "")
    assert iris.status("/a/j").preemption_count == 1
    assert lost not in iris.workers()


def test_a_lost_worker_without_budget_ends_the_job(iris, job):
    iris.script("j", Outcome.lose_worker())
    iris.launch(job())
    assert iris.until_ended("/a/j") == "WORKER_FAILED"
    assert iris.task_states("/a/j") == ["WORKER_FAILED"]


def test_a_lost_worker_stays_healthy_until_it_is_removed_and_another_comes(iris, job):
    """Only the failure count and the VM's usability tell earlier."""
    iris.script("j", Outcome.hang())
    iris.launch(job())
    iris.until_running("/a/j")
    worker_id, before = iris.tasks("/a/j")[0].worker_id, len(iris.workers())
    iris.cluster.lose_worker(worker_id)
    iris.run(0.5)
    assert iris.workers()[worker_id].healthy
    assert iris.workers()[worker_id].consecutive_failures > 0
    iris.until(lambda: worker_id not in iris.workers())
    iris.until(lambda: len(iris.workers()) == before)


def test_a_preempted_gang_counts_once_and_is_bounced_together(make_iris, job):
    iris = make_iris(Fleet.of(tpu={"v5p-16": 1}))
    iris.script("j", Outcome.preempt(by="/p/int/0"), Outcome.succeed())
    iris.launch(gang(job, max_retries_preemption=5))
    iris.until(lambda: iris.status("/a/j").preemption_count > 0)
    first, second = iris.tasks("/a/j")
    assert iris.state("/a/j") == "RUNNING"
    assert iris.status("/a/j").preemption_count == 1
    assert first.attempts[0].error == "Preempted by /p/int/0"
    assert first.attempts[0].is_worker_failure
    assert second.attempts[0].error == "Coscheduled sibling /a/j/0 bounced for atomic re-scheduling"
    assert not second.attempts[0].is_worker_failure
    assert second.pending_reason == "Retrying (attempt 1, last: task_state_cosched_failed)"
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    assert len(set(iris.slices_of("/a/j"))) == 1
    assert iris.tasks("/a/j")[0].error == "Preempted by /p/int/0"


def test_a_gang_preempted_without_budget_is_a_worker_failure(iris, job):
    iris.script("j", Outcome.preempt(by="/q/i/0"))
    iris.launch(gang(job))
    assert iris.until_ended("/a/j") == "WORKER_FAILED"
    assert iris.task_states("/a/j") == ["PREEMPTED", "COSCHED_FAILED"]
    assert iris.status("/a/j").error == "Preempted by /q/i/0"
    assert iris.tasks("/a/j")[1].error == "Coscheduled sibling /a/j/0 failed"


def test_a_failing_task_takes_its_gang_along(iris, job):
    iris.script("j", Outcome.fail(2, replica=1))
    iris.launch(gang(job))
    assert iris.until_ended("/a/j") == "FAILED"
    assert iris.task_states("/a/j") == ["COSCHED_FAILED", "FAILED"]
    assert iris.tasks("/a/j")[0].error == "Coscheduled sibling /a/j/1 failed"


def test_a_gang_with_budget_is_retried_as_a_whole(iris, job):
    """The sibling's bounced attempt is not counted as a failure."""
    iris.script("j", Outcome.fail(2, replica=1, seconds=1), Outcome.succeed())
    iris.launch(gang(job, max_retries_failure=1, max_task_failures=1))
    iris.until(lambda: iris.status("/a/j").failure_count > 0)
    assert iris.status("/a/j").failure_count == 1
    assert iris.status("/a/j").preemption_count == 0
    assert iris.until_ended("/a/j") == "SUCCEEDED"


def test_a_kill_from_outside_is_told_as_such(iris, job):
    iris.script("j", Outcome.kill(seconds=1))
    iris.launch(job())
    assert iris.until_ended("/a/j") == "KILLED"
    assert iris.status("/a/j").error == "Terminated by user"
