"""How jobs end, and what job, task and attempt say of it."""

from __future__ import annotations

from casebook import case
from iris_under_test import NEVER, SLEEP, Iris, gpu

from fray_airflow.iris import calls
from fray_airflow.iris._gen import job_pb2

BATCH = job_pb2.PRIORITY_BAND_BATCH


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


@case
def success(iris: Iris) -> None:
    """A job whose tasks all exit with 0 succeeds."""
    job_id = iris.launch(replicas=2)
    job = iris.finished(job_id)
    assert (job.state, job.exit_code, job.error, job.pending_reason) == (job_pb2.JOB_STATE_SUCCEEDED, 0, "", "")
    assert (job.task_count, job.completed_count, dict(job.task_state_counts)) == (2, 2, {"succeeded": 2})
    assert (job.failure_count, job.preemption_count) == (0, 0)
    assert 0 < job.submitted_at.epoch_ms <= job.started_at.epoch_ms <= job.finished_at.epoch_ms
    assert (job.backend_id, job.cluster, job.parent_job_id, job.has_children) == ("default", "local", "", False)
    assert [task.task_id for task in iris.tasks(job_id)] == [f"{job_id}/0", f"{job_id}/1"]
    for task in iris.tasks(job_id):
        assert (task.state, task.exit_code, task.error) == (job_pb2.TASK_STATE_SUCCEEDED, 0, "")
        (attempt,) = task.attempts
        assert (attempt.attempt_id, attempt.state) == (0, job_pb2.TASK_STATE_SUCCEEDED)
        assert attempt.worker_id == task.worker_id != ""
        assert len(attempt.attempt_uid) == 16
        assert (task.backend_id, task.cluster, task.worker_address) == ("default", "local", "")


@case
def exit_code(iris: Iris) -> None:
    """The exit code is the task's; the job says 0 although it failed. Its error ends with the last line of stderr."""
    job_id = iris.launch(argv=sh("echo first >&2; echo last words >&2; exit 3"))
    job, task = iris.finished(job_id), iris.task(job_id)
    assert (job.state, job.exit_code, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 0, 1)
    assert (task.state, task.exit_code) == (job_pb2.TASK_STATE_FAILED, 3)
    assert task.error == "Exit code: 3. stderr: last words"
    limit = "Cumulative failed task attempts exceeded max_task_failures: failures=1, limit=0"
    assert job.error == job.pending_reason == f"{limit}; {task.error}"
    assert (dict(job.task_state_counts), job.completed_count) == ({"failed": 1}, 0)
    (attempt,) = task.attempts
    assert (attempt.exit_code, attempt.error, attempt.is_worker_failure) == (3, task.error, False)


@case
def exit_code_without_words(iris: Iris) -> None:
    """A task that wrote nothing to stderr has its exit code as error."""
    job_id = iris.launch(argv=sh("echo to stdout; exit 9"))
    iris.finished(job_id)
    assert iris.task(job_id).error == "Exit code: 9"


@case
def exit_code_137(iris: Iris) -> None:
    """137 is what a container reports for SIGKILL, and is explained."""
    job_id = iris.launch(argv=sh("exit 137"))
    iris.finished(job_id)
    task = iris.task(job_id)
    assert task.exit_code == 137
    assert task.error == "Exit code 137: killed by SIGKILL (possibly OOM or resource limit)"


@case
def killed_by_signal(iris: Iris) -> None:
    """A process that a signal ends has the signal's negative number as exit code."""
    codes = {}
    for name, number in (("kill", 9), ("term", 15)):
        job_id = iris.launch(name, sh(f"kill -{number} $$"))
        iris.finished(job_id)
        task = iris.task(job_id)
        codes[task.exit_code] = task.error
    assert codes == {-9: "Exit code: -9", -15: "Exit code: -15"}


@case
def program_missing(iris: Iris) -> None:
    """A program that does not exist fails its task with exit code 1."""
    job_id = iris.launch(argv=("no-such-program",))
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED
    task = iris.task(job_id)
    assert task.exit_code == 1
    assert "FileNotFoundError" in task.error


@case
def siblings_of_a_failure(iris: Iris) -> None:
    """When a job fails its other tasks are killed, with the job's error."""
    job_id = iris.launch(argv=sh('case "$IRIS_TASK_ID" in */1:0) exit 4;; esac; sleep 300'), replicas=3)
    job = iris.finished(job_id)
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 1)
    assert dict(job.task_state_counts) == {"failed": 1, "killed": 2}
    assert job.completed_count == 2
    first, second, third = iris.tasks(job_id)
    assert (second.state, second.exit_code) == (job_pb2.TASK_STATE_FAILED, 4)
    for sibling in (first, third):
        assert (sibling.state, sibling.exit_code) == (job_pb2.TASK_STATE_KILLED, 0)
        assert sibling.error == job.error


@case
def retry(iris: Iris) -> None:
    """With both budgets a failed task runs again; its error stays after a later success."""
    script = 'case "$IRIS_TASK_ID" in *:0) exit 7;; esac; echo "second: $IRIS_TASK_ID"'
    job_id = iris.launch(argv=sh(script), max_retries_failure=1, max_task_failures=1)
    job, task = iris.finished(job_id), iris.task(job_id)
    assert (job.state, job.failure_count, job.error) == (job_pb2.JOB_STATE_SUCCEEDED, 1, "")
    assert (task.state, task.exit_code, task.current_attempt_id) == (job_pb2.TASK_STATE_SUCCEEDED, 0, 1)
    assert task.error == "Exit code: 7"
    states = [(attempt.attempt_id, attempt.state, attempt.exit_code) for attempt in task.attempts]
    assert states == [(0, job_pb2.TASK_STATE_FAILED, 7), (1, job_pb2.TASK_STATE_SUCCEEDED, 0)]
    (line,) = iris.lines(job_id, 1)
    assert (line.key, line.attempt_id, line.data) == (f"{job_id}/0:1", 1, f"second: {job_id}/0:1")


@case
def retries_without_the_job_s_budget(iris: Iris) -> None:
    """Retries of a task are useless when the job tolerates no failure."""
    job_id = iris.launch(argv=sh("exit 7"), max_retries_failure=2, max_task_failures=0)
    job, task = iris.finished(job_id), iris.task(job_id)
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 1)
    assert task.state == job_pb2.TASK_STATE_KILLED
    (attempt,) = task.attempts
    assert (attempt.state, attempt.exit_code) == (job_pb2.TASK_STATE_FAILED, 7)


@case
def job_budget_without_retries(iris: Iris) -> None:
    """A job that tolerates failures runs on, and has failed when all tasks have ended."""
    script = 'case "$IRIS_TASK_ID" in */0:0) exit 5;; esac; sleep 3'
    job_id = iris.launch(argv=sh(script), replicas=2, max_task_failures=5)
    counts = iris.until(lambda: iris.job(job_id), lambda job: job.task_state_counts.get("failed"))
    assert counts.state == job_pb2.JOB_STATE_RUNNING
    job = iris.finished(job_id)
    assert job.state == job_pb2.JOB_STATE_FAILED
    assert dict(job.task_state_counts) == {"failed": 1, "succeeded": 1}
    assert job.error == iris.tasks(job_id)[0].error == "Exit code: 5"


@case
def retries_used_up(iris: Iris) -> None:
    """A task runs once more than its budget says, then it has failed, and its job with it."""
    job_id = iris.launch(argv=sh("exit 6"), max_retries_failure=1, max_task_failures=1)
    job, task = iris.finished(job_id), iris.task(job_id)
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 2)
    assert (task.state, task.exit_code) == (job_pb2.TASK_STATE_FAILED, 6)
    assert task.current_attempt_id == 1


@case
def attempts_in_the_list(iris: Iris) -> None:
    """The list of tasks tells the current attempt and the latest failed one, no earlier ones."""
    script = 'case "$IRIS_TASK_ID" in *:2) exit 0;; esac; exit 6'
    done = iris.launch("done", sh(script), max_retries_failure=2, max_task_failures=2)
    failed = iris.launch("failed", sh("exit 6"), max_retries_failure=1, max_task_failures=1)
    assert iris.finished(done).failure_count == 2
    assert [attempt.attempt_id for attempt in iris.task(done).attempts] == [1, 2]
    iris.finished(failed)
    assert [attempt.attempt_id for attempt in iris.task(failed).attempts] == [1]


@case
def terminate_running(iris: Iris) -> None:
    """A terminated job is KILLED at once, its task has no exit code, and its attempt counts as preempted."""
    job_id = iris.launch(argv=SLEEP)
    iris.running(job_id)
    iris.terminate(job_id)
    job, task = iris.job(job_id), iris.task(job_id)
    assert (job.state, job.error) == (job_pb2.JOB_STATE_KILLED, "Terminated by user")
    assert (job.preemption_count, job.completed_count, dict(job.task_state_counts)) == (1, 1, {"killed": 1})
    assert (task.state, task.exit_code, task.error) == (job_pb2.TASK_STATE_KILLED, 0, "Terminated by user")
    ended = iris.until(lambda: iris.task(job_id), lambda task: task.attempts[0].finished_at.epoch_ms)
    assert ended.attempts[0].state == job_pb2.TASK_STATE_KILLED


@case
def terminate_pending(iris: Iris) -> None:
    """A task that never ran has no attempt when its job is terminated."""
    job_id = iris.launch(constraints=NEVER)
    iris.terminate(job_id)
    job, task = iris.job(job_id), iris.task(job_id)
    assert (job.state, job.error, job.preemption_count) == (job_pb2.JOB_STATE_KILLED, "Terminated by user", 0)
    assert (task.state, task.error, task.worker_id) == (job_pb2.TASK_STATE_KILLED, "Terminated by user", "")
    assert (task.current_attempt_id, list(task.attempts)) == (-1, [])


@case
def terminate_twice(iris: Iris) -> None:
    """Terminating a finished job changes nothing."""
    killed, done = iris.launch("killed", SLEEP), iris.launch("done")
    iris.terminate(killed)
    before = iris.job(killed)
    iris.terminate(killed)
    assert iris.job(killed).finished_at == before.finished_at
    iris.finished(done)
    iris.terminate(done)
    assert iris.job(done).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def pending_for_ever(iris: Iris) -> None:
    """A job that no machine suits stays PENDING and says why; its tasks do not."""
    job_id = iris.launch(constraints=NEVER)
    job = iris.pending(job_id, "no-such-attribute")
    assert (job.state, job.error, dict(job.task_state_counts)) == (job_pb2.JOB_STATE_PENDING, "", {"pending": 1})
    task = iris.task(job_id)
    assert (task.state, task.current_attempt_id, task.pending_reason) == (job_pb2.TASK_STATE_PENDING, -1, "")
    iris.terminate(job_id)


@case
def scheduling_timeout(iris: Iris) -> None:
    """A job that is not placed in time is UNSCHEDULABLE, and so are its tasks."""
    job_id = iris.launch(constraints=NEVER, scheduling_timeout={"milliseconds": 1500}, replicas=2)
    job = iris.finished(job_id)
    assert job.state == job_pb2.JOB_STATE_UNSCHEDULABLE
    assert job.error == job.pending_reason == "Scheduling timeout exceeded (Duration(1.500s))"
    assert dict(job.task_state_counts) == {"unschedulable": 2}
    for task in iris.tasks(job_id):
        assert (task.state, task.error) == (job_pb2.TASK_STATE_UNSCHEDULABLE, job.error)
        assert list(task.attempts) == []


@case
def scheduling_timeout_of_a_placed_job(iris: Iris) -> None:
    """A job that was placed in time is not bothered by the scheduling timeout."""
    job_id = iris.launch(argv=sh("sleep 8"), scheduling_timeout={"milliseconds": 7000})
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def preemption(iris: Iris) -> None:
    """A higher band takes the machine of a lower one, whose task goes back to PENDING and runs again."""
    urgent = iris.another_user("urgent")
    victim = iris.launch("low", SLEEP, resources=gpu("h100", 8), priority_band=BATCH, max_retries_preemption=1)
    iris.running(victim)
    preemptor = urgent.launch("high", sh("sleep 4"), resources=gpu("h100", 8))
    job = iris.until(lambda: iris.job(victim), lambda job: job.preemption_count)
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_RUNNING, 0)
    task = iris.task(victim)
    assert (task.state, task.worker_id, task.can_be_scheduled) == (job_pb2.TASK_STATE_PENDING, "", True)
    assert task.pending_reason == "Retrying (attempt 1, last: task_state_preempted)"
    assert task.attempts[0].state == job_pb2.TASK_STATE_PREEMPTED
    assert task.attempts[0].error == f"Preempted by {preemptor}/0"
    assert task.attempts[0].is_worker_failure
    urgent.finished(preemptor)
    (again,) = iris.running(victim)
    assert again.current_attempt_id == 1
    urgent.launch("high", resources=gpu("h100", 8))
    ended = iris.finished(victim)
    assert (ended.state, ended.preemption_count) == (job_pb2.JOB_STATE_WORKER_FAILED, 2)
    assert dict(ended.task_state_counts) == {"preempted": 1}
    assert ended.error == f"Preempted by {preemptor}/0"


@case
def states_of_many(iris: Iris) -> None:
    """GetJobState answers for jobs in different states in one call."""
    done, failed, waiting = (
        iris.launch("done"),
        iris.launch("failed", ("false",)),
        iris.launch("w", constraints=NEVER),
    )
    iris.finished(done)
    iris.finished(failed)
    states = dict(iris.call(calls.GET_JOB_STATE, job_ids=[done, failed, waiting]).states)
    assert states == {
        done: job_pb2.JOB_STATE_SUCCEEDED,
        failed: job_pb2.JOB_STATE_FAILED,
        waiting: job_pb2.JOB_STATE_PENDING,
    }
    iris.terminate(waiting)


@case
def submission_times(iris: Iris) -> None:
    """No two jobs have the same time of submission, and later ones have later times."""
    times = [iris.job(iris.launch(f"job-{number}")).submitted_at.epoch_ms for number in range(4)]
    assert times == sorted(set(times))
