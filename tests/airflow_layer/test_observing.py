"""What a task leaves for callbacks, notifiers and tasks that come after it has failed."""

import asyncio
import json

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferred

from fray_airflow import ResourceConfig, errors
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing.operator import TaskInstance, execute_once, run_operator

both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(**{"task_id": "train", "command": ["true"], **arguments})


def task_instance(**changes):
    return TaskInstance("pipeline", "run-1", "train", **changes)


def resumed(operator, ti, deferral, without=()):
    """The next turn on a worker, with the event of the trigger."""

    async def first():
        return (await anext(deferral.trigger.run())).payload

    payload = json.loads(json.dumps(asyncio.run(first())))
    event = {name: value for name, value in payload.items() if name not in without}
    return getattr(operator, deferral.method_name)({"ti": ti}, event=event)


@both_modes
def test_a_failure_leaves_the_facts_of_its_job(scripted, deferrable):
    """In the XCom `iris_job`, with the replica that failed first, and the machines that it had."""
    scripted.script("*", Outcome.fail(3, replica=1, seconds=0.5))
    operator, ti = submit(resource_config=ResourceConfig.with_tpu("v5p-16"), deferrable=deferrable), task_instance()
    with pytest.raises(TaskDeferred if deferrable else errors.JobFailedError) as caught:
        execute_once(operator, ti)
    if deferrable:
        assert "iris_job" not in ti.xcoms
        with pytest.raises(errors.JobFailedError):
            resumed(operator, ti, caught.value)
    facts = ti.xcoms["iris_job"]
    assert (facts["job_id"], facts["state"]) == (ti.xcoms["job_id"], "FAILED")
    assert (facts["failed_replica"], facts["exit_code"]) == (1, 3)
    assert (facts["device"], facts["launches"]) == ("v5p-16", 1)
    assert facts["server"] == scripted.target.partition("://")[2]
    assert len(facts["placement"]) == 2


def test_a_job_that_was_never_placed_has_facts_too(scripted):
    """There is no replica to blame."""
    scripted.script("*", Outcome.stay_pending())
    ti = task_instance()
    with pytest.raises(errors.PlacementTimeoutError):
        execute_once(submit(placement_timeout=0.5), ti)
    facts = ti.xcoms["iris_job"]
    assert (facts["failed_replica"], facts["queue_seconds"], facts["placement"]) == (None, None, [])


def test_a_task_without_a_job_leaves_no_facts(connect):
    """Its controller is not there, and a callback has the exception only."""
    connect("grpc://127.0.0.1:9")
    ti = task_instance()
    with pytest.raises(errors.IrisUnavailableError):
        execute_once(submit(), ti)
    assert "iris_job" not in ti.xcoms


def test_a_success_returns_its_facts_and_pushes_none(scripted):
    """They would be there twice."""
    scripted.script("*", Outcome.succeed())
    assert "iris_job" not in run_operator(submit()).xcoms


def test_an_execution_timeout_leaves_facts(scripted, monkeypatch):
    """Airflow's timer interrupts the watching; this is how."""
    scripted.script("*", Outcome.hang())
    operator, ti = submit(), task_instance()

    def interrupt(seconds):
        raise AirflowTaskTimeout

    monkeypatch.setattr("fray_airflow.operators.launch.Launch._pause", lambda self, seconds: interrupt(seconds))
    with pytest.raises(AirflowTaskTimeout):
        execute_once(operator, ti)
    assert ti.xcoms["iris_job"]["job_id"] == ti.xcoms["job_id"]


def test_facts_that_cannot_be_pushed_hide_no_failure(scripted, capsys):
    """The task fails with the error of its job."""

    class Deaf(TaskInstance):
        def xcom_push(self, key, value):
            if key == "iris_job":
                raise ConnectionError("Airflow is away")

    scripted.script("*", Outcome.fail(3))
    with pytest.raises(errors.JobFailedError):
        execute_once(submit(), Deaf("pipeline", "run-1", "train"))
    assert "could not be pushed: Airflow is away" in capsys.readouterr().out


def test_an_event_of_an_older_trigger_has_no_facts(scripted):
    """During an upgrade a new worker resumes what an old triggerer watched: the result is what counts."""
    scripted.script("*", Outcome.succeed(seconds=0.5))
    operator, ti = submit(deferrable=True), task_instance()
    with pytest.raises(TaskDeferred) as caught:
        execute_once(operator, ti)
    assert resumed(operator, ti, caught.value, without=("facts",))["state"] == "SUCCEEDED"
