"""Who ends a job, and who does not: kills of the worker and of the trigger, timeouts, crashes of the trigger."""

import os
import signal
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralError, TaskDeferred
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetTaskStates, GetXCom, TaskStatesResult, XComResult
from airflow.sdk.execution_time.timeout import timeout as airflow_timeout

from fray_airflow import errors
from fray_airflow.iris import IrisClient
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.task_state import JOBS_KEY, LaunchedJobs
from fray_airflow.testing.operator import TaskInstance, execute_once, run_operator
from fray_airflow.triggers import IrisJobTrigger

LONGEST_WAIT = 20


class Supervisor:
    """The far side of the task SDK: answers what a task asks of Airflow."""

    def __init__(self):
        self.state = "running"
        self.xcom = None
        self.hangs = False

    def send(self, message):
        if self.hangs:
            time.sleep(LONGEST_WAIT)
        match message:
            case GetTaskStates():
                name = message.task_ids[0]
                return TaskStatesResult(task_states={message.run_ids[0]: {name: self.state}})
            case GetXCom():
                return XComResult(key=message.key, value=self.xcom)
        raise RuntimeError(f"not asked in these tests: {message}")


@pytest.fixture
def supervisor(monkeypatch):
    far_side = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", far_side, raising=False)
    return far_side


class Submit(IrisSubmitJobOperator):
    defer_after_seconds = 0
    executing = None
    """The copy of the operator that a worker has made for itself."""

    def execute(self, context):
        Submit.executing = self
        return super().execute(context)


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(**{"task_id": "train", "command": ["true"], **arguments})


def job_state(iris):
    with IrisClient(iris.target) as client:
        (job,) = client.jobs()
        return job.state.name


def until(condition):
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert condition()


def killed_while_watching(iris, operator, **run):
    """Runs the operator, and kills it when its job runs: by a signal, whose handler interrupts it as in Airflow."""

    def kill():
        until(lambda: iris.calls["LaunchJob"] == 1 and iris.calls["ListTasks"] >= 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: Submit.executing.on_kill())
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        return run_operator(operator, **run)
    finally:
        killer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_worker_killed_because_the_task_was_marked_ends_the_job_once(scripted, supervisor):
    """One TerminateJob, and the task does not wait for its poll."""
    scripted.script("*", Outcome.hang())
    supervisor.state = "failed"
    with pytest.raises(errors.JobKilledError):
        killed_while_watching(scripted, submit(poll_interval=60))
    assert scripted.calls["TerminateJob"] == 1
    assert job_state(scripted) == "KILLED"


def test_a_worker_that_is_evicted_leaves_the_job_to_the_next_try(scripted, supervisor):
    """The task is still running for Airflow: the error is one that Airflow retries, and the retry adopts."""
    scripted.script("*", Outcome.succeed(seconds=3))
    with pytest.raises(errors.IrisUnavailableError, match="next try"):
        killed_while_watching(scripted, submit(retries=1))
    assert scripted.calls["TerminateJob"] == 0
    assert run_operator(submit(retries=1), try_number=2).value["state"] == "SUCCEEDED"
    assert scripted.calls["LaunchJob"] == 1


def test_a_worker_whose_task_a_new_scheduler_took_back_leaves_the_job(scripted, supervisor):
    """The task is queued again: its next try adopts."""
    scripted.script("*", Outcome.hang())
    supervisor.state = "queued"
    with pytest.raises(errors.IrisUnavailableError):
        killed_while_watching(scripted, submit())
    assert scripted.calls["TerminateJob"] == 0


def test_a_worker_that_gets_no_answer_from_airflow_leaves_the_job(scripted, supervisor):
    """Two seconds are waited for it, and no more."""
    scripted.script("*", Outcome.hang())
    supervisor.hangs = True
    started = time.monotonic()
    with pytest.raises(errors.IrisUnavailableError):
        killed_while_watching(scripted, submit())
    assert time.monotonic() - started < LONGEST_WAIT
    assert scripted.calls["TerminateJob"] == 0


@pytest.mark.parametrize(("state", "ends"), [("failed", 1), ("running", 0)], ids=["marked", "evicted"])
def test_a_kill_in_the_middle_of_a_line_of_the_log_is_served_too(scripted, supervisor, monkeypatch, state, ends):
    """The interrupted code holds the lock of the log, which is none that one thread may take twice."""
    scripted.script("*", Outcome.hang())
    supervisor.state = state
    lock, writing = threading.Lock(), Submit._tell

    def tell(operator, level, text):
        with lock:
            writing(operator, level, text)
            if text.startswith("Submitted"):
                operator.on_kill()

    def warn(*_):
        with lock:
            pass

    monkeypatch.setattr(Submit, "_tell", tell)
    monkeypatch.setattr(Submit, "log", SimpleNamespace(log=lambda *_: None, warning=warn, info=warn))
    with pytest.raises((errors.JobKilledError, errors.IrisUnavailableError)):
        run_operator(submit(poll_interval=60))
    assert scripted.calls["TerminateJob"] == ends


def test_a_kill_during_submission_ends_the_job_that_comes_of_it(scripted, supervisor, monkeypatch):
    """The reply is on its way when the kill comes; the job does not outlive it."""
    scripted.script("*", Outcome.hang())
    supervisor.state = "failed"
    handle = scripted.cluster.handle

    def handle_and_kill(path, *arguments, **options):
        if path.endswith("/LaunchJob"):
            Submit.executing.on_kill()
        return handle(path, *arguments, **options)

    monkeypatch.setattr(scripted.cluster, "handle", handle_and_kill)
    with pytest.raises(errors.JobKilledError):
        run_operator(submit())
    assert job_state(scripted) == "KILLED"


def test_a_job_that_is_to_be_kept_survives_a_kill(scripted, supervisor):
    """on_kill_action="keep"."""
    scripted.script("*", Outcome.hang())
    supervisor.state = "failed"
    with pytest.raises(errors.IrisUnavailableError):
        killed_while_watching(scripted, submit(on_kill_action="keep"))
    assert scripted.calls["TerminateJob"] == 0


def test_airflows_own_timer_ends_the_job(scripted, supervisor):
    """It calls on_kill while the task is running, as an eviction does, but the author meant it."""
    scripted.script("*", Outcome.hang())
    with pytest.raises(AirflowTaskTimeout), airflow_timeout(2):
        run_operator(submit())
    Submit.executing.on_kill()
    assert scripted.calls["TerminateJob"] == 1
    assert job_state(scripted) == "KILLED"


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
def test_execution_timeout_means_the_same_in_both_modes(scripted, deferrable):
    """It counts from the start of the try, deferred or not."""
    scripted.script("*", Outcome.hang())
    operator = submit(execution_timeout=timedelta(seconds=2), deferrable=deferrable)
    with pytest.raises(errors.JobTimeoutError, match="execution_timeout"):
        run_operator(operator)
    assert job_state(scripted) == "KILLED"


def deferred_trigger(iris, **arguments):
    """The trigger of a task that was deferred, as the triggerer has it, with its task instance."""
    ti = TaskInstance("pipeline", "run-1", "train")
    with pytest.raises(TaskDeferred) as deferral:
        execute_once(submit(deferrable=True, **arguments), ti)
    trigger = deferral.value.trigger
    assert isinstance(trigger, IrisJobTrigger)
    trigger.task_instance = ti
    return trigger


@pytest.mark.parametrize(
    ("state", "current", "ends"),
    [
        ("failed", "same", True),
        ("success", "same", True),
        (None, "same", True),
        ("deferred", "same", False),
        ("deferred", "other", True),
        ("running", None, True),
    ],
    ids=["marked failed", "marked success", "cleared", "watched elsewhere", "cleared and deferred anew", "next try"],
)
async def test_a_killed_trigger_ends_the_job_unless_somebody_watches_it(scripted, supervisor, state, current, ends):
    """A stalled triggerer that returns finds its task still deferred with this very job, and leaves it."""
    scripted.script("*", Outcome.hang())
    trigger = deferred_trigger(scripted)
    supervisor.state = state
    supervisor.xcom = {"same": trigger.job_id, "other": "/airflow/another"}.get(current)
    await trigger.on_kill()
    assert scripted.calls["TerminateJob"] == (1 if ends else 0)


async def test_a_killed_trigger_without_an_answer_leaves_the_job(scripted):
    """No API server, no cancellation."""
    scripted.script("*", Outcome.hang())
    await deferred_trigger(scripted).on_kill()
    assert scripted.calls["TerminateJob"] == 0


@pytest.mark.parametrize(("try_number", "ended"), [(1, 0), (2, 1)], ids=["a try is left", "the last"])
def test_a_crashed_trigger_ends_the_job_only_when_no_try_is_left(scripted, try_number, ended):
    """A next try would adopt it."""
    scripted.script("*", Outcome.hang())
    launched = LaunchedJobs("iris_default", (deferred_trigger(scripted).job_id,), "token", ends_on_kill=True)
    xcoms = {JOBS_KEY: launched.to_json()}
    ti = TaskInstance("pipeline", "run-1", "train", try_number=try_number, max_tries=1, xcoms=xcoms)
    with pytest.raises(TaskDeferralError):
        submit(retries=1).resume_execution("__fail__", {"error": "boom"}, {"ti": ti})
    assert scripted.calls["TerminateJob"] == ended


def test_a_cleared_task_ends_what_its_former_life_left_running(scripted):
    """Its worker died without a word, then the task was cleared: the old job goes, and a new one runs."""
    scripted.script("*-t1", Outcome.hang())
    run_operator(submit(wait_for_completion=False))
    value = run_operator(submit(), try_number=2, max_tries=1).value
    assert value["job_id"].endswith("-t2")
    with IrisClient(scripted.target) as client:
        assert sorted(job.state.name for job in client.jobs()) == ["KILLED", "SUCCEEDED"]


def test_an_end_without_a_further_try_terminates_what_runs(scripted):
    """The token was withdrawn for reading; nobody comes to adopt the job, so it is told to end."""
    scripted.script("*", Outcome.hang())
    operator = submit()

    def refuse():
        until(lambda: scripted.calls["ListTasks"] >= 1)
        scripted.fault("GetJobStatus", code="permission_denied", times=1)

    breaker = threading.Thread(target=refuse)
    breaker.start()
    with pytest.raises(errors.IrisAuthError):
        run_operator(operator)
    breaker.join()
    assert job_state(scripted) == "KILLED"


def test_a_token_that_is_replaced_meanwhile_is_read_again(scripted):
    """One refusal is no end."""
    scripted.script("*", Outcome.succeed(seconds=2))

    def refuse():
        until(lambda: scripted.calls["ListTasks"] >= 1)
        scripted.fault("GetJobStatus", code="unauthenticated", times=1)

    breaker = threading.Thread(target=refuse)
    breaker.start()
    assert run_operator(submit()).value["state"] == "SUCCEEDED"
    breaker.join()
