"""What the training pipeline asks of Iris, and how it bears trouble. `pytest dags/tests` needs nothing else."""

from pathlib import Path

import pytest

from fray_airflow.errors import JobFailedError
from fray_airflow.local import Outcome
from fray_airflow.testing import load_dags


@pytest.fixture
def dag():
    return load_dags(Path(__file__).parents[1] / "train_pipeline.py")["train_pipeline"]


def test_training_asks_for_one_gang_of_two_hosts(dag, local_iris, run_operator):
    """Both replicas on one slice of the TPU type, and started again for as long as hosts are preempted."""
    local_iris.script("train", Outcome.preempt(times=2), Outcome.succeed(result={"shards": 2}))
    run = run_operator(dag.get_task("train"))
    assert run.value["result"] == {"shards": 2}
    assert run.value["preemption_count"] == 2
    (asked,) = local_iris.submissions
    assert asked.command == ["python", "/app/ngram.py", "train"]
    assert (asked.replicas, asked.resources["variant"], asked.gang_level) == (2, "v5p-16", "tpu-name")
    assert asked.env["STORE"] == "/var/tmp/fray_airflow_store/run-1"


def test_a_replica_that_fails_fails_the_task(dag, local_iris, run_operator):
    """The error names the replica and holds its last lines."""
    local_iris.script("train", Outcome.fail(exit_code=3, stderr=["no data"], replica=1))
    with pytest.raises(JobFailedError, match="replica 1 ended with exit code 3"):
        run_operator(dag.get_task("train"))


def test_the_model_is_published_with_its_perplexity(dag, local_iris, run_dag):
    """Results go from task to task, through a database of Airflow's."""
    local_iris.script("tokenise")
    local_iris.script("train", Outcome.succeed(result="gs://models/7"))
    local_iris.script("evaluate", Outcome.succeed(result={"perplexity": 21.5}))
    runs = run_dag(dag)
    assert {run.state for run in runs.values()} == {"success"}
    assert runs["publish", -1].value["model"] == "gs://models/7"
    assert runs["publish", -1].value["perplexity"] == 21.5
