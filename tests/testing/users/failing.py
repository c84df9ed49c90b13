"""Tests of a user's that pass but for the script, and fail at their end. tests/testing/test_fixtures.py reads why."""

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator


def submit(task_id="train", **arguments):
    with DAG("train_pipeline", schedule=None):
        return IrisSubmitJobOperator(task_id=task_id, **{"command": ["true"], **arguments})


def test_an_unexpected_job(local_iris, run_operator):
    local_iris.script("tokenise")
    run_operator(submit("tokenise"))
    run_operator(submit("train", command=["python", "train.py"]))


def test_one_job_too_many(local_iris, run_operator):
    local_iris.script("train")
    run_operator(submit())
    run_operator(submit(), run_id="another")


def test_a_task_that_is_misspelt(local_iris, run_operator):
    local_iris.script("trian", Outcome.preempt(), Outcome.fail(exit_code=3, replica=1))
    local_iris.allow_others()
    run_operator(submit())


def test_fewer_attempts(local_iris, run_operator):
    local_iris.script("train", Outcome.succeed(), Outcome.succeed(["epoch 1"], result={"loss": 1}))
    run_operator(submit())


def test_nothing_was_submitted(local_iris):
    local_iris.script("train", Outcome.stay_pending(reason="full"))


def test_faults_that_did_not_happen(local_iris, run_operator):
    run_operator(submit())
    local_iris.away(polls=2)
    local_iris.fault("LaunchJob")
    local_iris.lose_reply("TerminateJob")
    local_iris.away(seconds=60)


def test_a_wait_without_end(local_iris, run_operator, monkeypatch):
    monkeypatch.setattr("fray_airflow.testing.clock._MOST_WAITS", 100)
    local_iris.script("train", Outcome.hang())
    run_operator(submit())


def test_a_failure_of_its_own(local_iris):
    local_iris.script("train")
    assert ResourceConfig.with_cpu(cpu=1).cpu == 2, "its own story"
