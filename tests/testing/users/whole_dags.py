"""Tests of a user's that run whole DAGs, in a database of Airflow's. Run by tests/testing/test_fixtures.py."""

import os
from datetime import timedelta

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.sensors import IrisPlacementSensor


def test_each_mapped_instance_takes_an_outcome(local_iris, run_dag):
    """They are one task, whose variables do not stay."""
    with DAG("mapped", schedule=None) as dag:
        IrisSubmitJobOperator.partial(task_id="sweep").expand(command=[["true"], ["false"]])
    local_iris.script("sweep", Outcome.succeed(result=1), Outcome.succeed(result=2))
    runs = run_dag(dag)
    assert sorted(run.value["result"] for run in runs.values()) == [1, 2]
    assert {each.task_id for each in local_iris.submissions} == {"sweep"}
    assert "AIRFLOW_CTX_TASK_ID" not in os.environ


def test_hours_pass_and_later_tasks_have_their_own_time(local_iris, run_dag):
    """A sensor with long intervals, a fallback, and a limit of the second task that the first one's time is not in."""
    pair = ResourceConfig.with_tpu("v5p-16")
    with DAG("chain", schedule=None) as dag:
        launch = IrisSubmitJobOperator(
            task_id="launch", resource_config=pair, command=["true"], wait_for_completion=False
        )
        placed = IrisPlacementSensor(task_id="placed", job_id=launch.output["job_id"], poke_interval=60)
        train = IrisSubmitJobOperator(
            task_id="train",
            resource_config=ResourceConfig.with_tpu("v5p-8"),
            fallback_resource_configs=[ResourceConfig.with_cpu(cpu=1)],
            placement_timeout=timedelta(minutes=5),
            execution_timeout=timedelta(minutes=20),
            command=["true"],
            deferrable=True,
        )
        launch >> placed >> train
    local_iris.script("launch", Outcome.stay_pending(seconds=3600), Outcome.succeed())
    local_iris.script("train", Outcome.stay_pending(), Outcome.succeed(seconds=600))
    runs = run_dag(dag)
    assert {run.task_id: run.state for run in runs.values()} == dict.fromkeys(["launch", "placed", "train"], "success")
    assert runs["train", -1].value["rung"] == 1


def test_a_task_that_fails_is_in_the_answer(local_iris, run_dag):
    """And what depends on it does not run."""
    with DAG("broken", schedule=None) as dag:
        first = IrisSubmitJobOperator(task_id="first", command=["true"])
        first >> IrisSubmitJobOperator(task_id="second", command=["true"])
    local_iris.script("first", Outcome.fail(3))
    runs = run_dag(dag, conf={"why": "test"})
    assert [runs[task, -1].state for task in ("first", "second")] == ["failed", "upstream_failed"]
