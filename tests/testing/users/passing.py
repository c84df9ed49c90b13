"""Tests of a user's: each shows one thing that the fixtures do, and passes. Run by tests/testing/test_fixtures.py."""

import asyncio
import os
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from fray_airflow import Entrypoint, JobRequest, ResourceConfig, errors
from fray_airflow.local import Fleet, Outcome
from fray_airflow.operators import IrisSubmitJobOperator, per_rung
from fray_airflow.sensors import IrisCapacitySensor, IrisJobSensor, IrisPlacementSensor
from fray_airflow.testing import run_operator as function

both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
all_modes = pytest.mark.parametrize("mode", [{"mode": "poke"}, {"mode": "reschedule"}, {"deferrable": True}], ids=str)
PAIR = ResourceConfig.with_tpu("v5p-16")
SINGLE = ResourceConfig.with_tpu("v5p-8")


def submit(task_id="train", **arguments):
    with DAG("train_pipeline", schedule=None):
        return IrisSubmitJobOperator(task_id=task_id, **{"command": ["true"], **arguments})


def sense(kind, **arguments):
    with DAG("sensing", schedule=None):
        return kind(task_id="wait", poke_interval=60, **arguments)


def test_a_task_is_executed_against_its_script(local_iris, run_operator):
    """The fixture has the name of a function that can still be imported."""
    local_iris.script("train", Outcome.succeed(["step 1"], result={"loss": 0.5}))
    run = run_operator(submit())
    assert run_operator is function
    assert run.value["result"] == {"loss": 0.5}
    assert not run.deferred


def test_a_deferrable_task_defers_at_once_and_its_trigger_is_run(local_iris, run_operator):
    """A short job would end on its worker otherwise, and nothing of the deferral would be tested."""
    local_iris.script("train", Outcome.preempt(times=2), Outcome.succeed())
    run = run_operator(submit(deferrable=True))
    assert run.deferred
    assert run.value["preemption_count"] == 2


@both_modes
def test_a_job_that_fails_raises_what_it_raises_in_airflow(local_iris, run_operator, deferrable):
    """Class, attributes and message, in both modes alike."""
    local_iris.script("train", Outcome.fail(exit_code=3, stderr=["no data"], replica=1))
    with pytest.raises(errors.JobFailedError, match="replica 1 ended with exit code 3") as caught:
        run_operator(submit(resource_config=PAIR, deferrable=deferrable))
    assert caught.value.exit_code == 3
    assert "no data" in str(caught.value)


def test_an_exit_code_that_is_final_is_not_retried(local_iris, run_operator):
    """Airflow's own class tells."""
    local_iris.script("train", Outcome.fail(2))
    with pytest.raises(AirflowFailException):
        run_operator(submit(no_retry_exit_codes=[2]))


@both_modes
def test_an_hour_of_a_job_takes_no_time(local_iris, run_operator, deferrable):
    """And is there in its result."""
    local_iris.script("train", Outcome.succeed(seconds=3600))
    run = run_operator(submit(deferrable=deferrable))
    assert run.value["run_seconds"] == pytest.approx(3600, abs=30)


@both_modes
def test_a_rung_that_finds_no_machines_is_passed(local_iris, run_operator, deferrable):
    """The trigger cannot submit: it hands the next rung to a worker, which defers again."""
    local_iris.script("train", Outcome.stay_pending(reason="no quota"), Outcome.succeed(result=7))
    run = run_operator(
        submit(
            resource_config=PAIR,
            fallback_resource_configs=[SINGLE],
            placement_timeout=timedelta(minutes=5),
            command=["train", per_rung(lambda rung: rung.device)],
            deferrable=deferrable,
        )
    )
    assert (run.value["rung"], run.value["result"]) == (1, 7)
    assert [each.command[1] for each in local_iris.submissions] == ["v5p-16", "v5p-8"]


@both_modes
def test_each_slice_is_a_job_with_an_outcome_of_its_own(local_iris, run_operator, deferrable):
    """They restart together, and each new job takes the next outcome."""
    local_iris.script("train", Outcome.succeed(), Outcome.fail(9), Outcome.succeed(), Outcome.succeed())
    slices = ResourceConfig.with_tpu("v5p-16", slice_count=2)
    run = run_operator(
        submit(resource_config=slices, slice_strategy="job_per_slice", max_retries_failure=1, deferrable=deferrable)
    )
    assert run.value["state"] == "SUCCEEDED"
    assert len(local_iris.submissions) == 4


@both_modes
def test_a_placement_timeout_of_minutes_passes_at_once(local_iris, run_operator, deferrable):
    """With the reason that the script gives."""
    local_iris.script("train", Outcome.stay_pending(reason="no quota in us-east5"))
    with pytest.raises(errors.PlacementTimeoutError, match="no quota in us-east5"):
        run_operator(submit(placement_timeout=timedelta(minutes=15), deferrable=deferrable))


@both_modes
@pytest.mark.parametrize("limit", ["job_timeout", "execution_timeout"])
def test_a_job_that_runs_too_long_is_ended(local_iris, run_operator, limit, deferrable):
    """Iris's limit and Airflow's."""
    local_iris.script("train", Outcome.hang())
    with pytest.raises(errors.JobTimeoutError):
        run_operator(submit(**{limit: timedelta(minutes=10)}, deferrable=deferrable))


@both_modes
def test_an_outage_is_borne_for_as_long_as_the_task_says(local_iris, run_operator, deferrable):
    """Longer ones are an error that tells how long."""
    local_iris.script("train", Outcome.succeed(seconds=900), Outcome.hang())
    local_iris.away(seconds=500, after=60)
    run_operator(submit(deferrable=deferrable, outage_tolerance=600))
    local_iris.away(seconds=700, after=60)
    with pytest.raises(errors.IrisUnavailableError, match="600 s"):
        run_operator(submit(deferrable=deferrable, outage_tolerance=600), run_id="next")


def test_trouble_on_the_way_is_borne(local_iris, run_operator):
    """The controller is away for three calls, and a reply is lost: there is one job."""
    local_iris.script("train")
    local_iris.away(polls=3)
    local_iris.lose_reply("LaunchJob")
    run_operator(submit())
    assert len(local_iris.submissions) == 1


def test_retries_of_airflow_draw_one_by_one_and_tasks_are_told_apart(local_iris, run_operator):
    """Each job's name holds the DAG's id, here that of another task."""
    local_iris.script("train", Outcome.fail(2), Outcome.succeed())
    local_iris.script("pre_train", Outcome.fail(5))
    with pytest.raises(errors.JobFailedError, match="exit code 5"):
        run_operator(submit("pre_train"))
    with pytest.raises(errors.JobFailedError, match="exit code 2"):
        run_operator(submit("train", retries=1))
    run_operator(submit("train", retries=1), try_number=2)


def test_a_function_returns_what_is_scripted(local_iris, run_operator):
    """Its result comes home in an envelope, where a command's comes in a line; without one it is None."""

    def make(task_id):
        with DAG("flow", schedule=None) as dag:

            @task.iris(resource_config=ResourceConfig.with_cpu(cpu=1), task_id=task_id)
            def fit(rate):
                raise AssertionError("never runs")

            fit(0.5)
        return dag.get_task(task_id)

    local_iris.script("fit", Outcome.succeed(result=[1, {"a": None}]))
    local_iris.script("forget")
    assert run_operator(make("fit")).value == [1, {"a": None}]
    assert run_operator(make("forget")).value is None
    assert [each.function.rpartition(".")[2] for each in local_iris.submissions] == ["fit", "fit"]


def test_a_command_that_pushes_a_file_returns_what_is_scripted(local_iris, run_operator):
    """With result_from="all", once for each replica."""
    local_iris.script("train", Outcome.succeed(result=7))
    operator = submit(resource_config=PAIR, result="file", result_from="all")
    assert run_operator(operator).value["result"] == [7, 7]


def test_what_was_submitted_is_plain_and_holds_no_secret(local_iris, run_operator, monkeypatch):
    """A test asserts on it without a word of protobuf; paths are shown though Iris would hide long ones."""
    monkeypatch.setenv("AIRFLOW_VAR_WANDB", "wandb-key-1")
    local_iris.script("train")
    run_operator(
        submit(
            resource_config=ResourceConfig.with_tpu("v5p-16", regions=["local"]),
            command="python train.py --run {{ run_id }}",
            environment={"env_vars": {"OUT": "gs://bucket/4f9a8c7d6e5b4a3f2e1d/run", "API_KEY": "abc"}},
            secrets={"WANDB": "var:wandb"},
            secrets_as_env=True,
            job_timeout=60,
            max_retries_failure=2,
            priority_band="batch",
        )
    )
    (asked,) = local_iris.submissions
    assert (asked.task_id, asked.command) == ("train", ["python", "train.py", "--run", "run-1"])
    assert asked.name.startswith("train_pipeline-train-")
    assert asked.job_id == f"/airflow/{asked.name}"
    assert (asked.replicas, asked.gang_level) == (2, "tpu-name")
    assert asked.resources.items() >= {"device": "tpu", "variant": "v5p-16", "count": 4}.items()
    assert ("region", "==", "local") in asked.constraints
    assert (asked.timeout_seconds, asked.max_retries_failure, asked.priority) == (60, 2, "batch")
    assert asked.env["OUT"] == "gs://bucket/4f9a8c7d6e5b4a3f2e1d/run"
    assert asked.env["API_KEY"] == asked.env["WANDB"] == "[REDACTED]"
    assert asked.secrets == ["WANDB"]
    assert "wandb-key-1" not in repr(asked)
    assert "FRAY_AIRFLOW_LAUNCH" not in asked.env


def test_a_glob_fits_tasks_and_names(local_iris, iris_connection, run_operator):
    """A job that no task of Airflow submits has nothing but its name."""
    local_iris.script("tr*n", Outcome.succeed(result=1))
    local_iris.script("*nightly*", Outcome.fail(4))
    assert run_operator(submit()).value["result"] == 1
    with iris_connection.client() as client:
        job = client.submit(JobRequest(name="the-nightly-job", entrypoint=Entrypoint.from_binary("true")))
        assert job.wait(timeout=30).state.name == "FAILED"
    assert [each.task_id for each in local_iris.submissions] == ["train", ""]


def test_without_a_script_any_job_is_welcome(local_iris, run_operator):
    """It succeeds at once."""
    assert run_operator(submit()).value["state"] == "SUCCEEDED"
    run_operator(submit("other"))


def test_others_can_be_allowed(local_iris, run_operator):
    """Where one job matters and the rest need only succeed."""
    local_iris.script("train", Outcome.succeed(result=3))
    local_iris.allow_others()
    run_operator(submit("other"))
    assert run_operator(submit()).value["result"] == 3


def test_another_connection_can_be_defined(local_iris, iris_connection, run_operator):
    """It leads to the same Iris, with fields of its own."""
    iris_connection.set("iris_batch", login="batch")
    run_operator(submit(iris_conn_id="iris_batch"))
    assert local_iris.submissions[0].job_id.startswith("/batch/")
    assert iris_connection.address == local_iris.target


def test_a_missing_connection_is_explained(local_iris):
    """The function without the fixture knows no Iris, and says how to get one."""
    with pytest.raises(AirflowNotFoundException, match="use the iris_connection fixture"):
        function(submit(iris_conn_id="iris_batch"))


class TestOtherMachines:
    @pytest.fixture
    def iris_fleet(self):
        return Fleet.of(tpu={"v5p-32": 1})

    def test_the_machines_can_be_others(self, local_iris, run_operator):
        """A fixture of the test's own takes the place of the fleet."""
        local_iris.script("train")
        run_operator(submit(resource_config=ResourceConfig.with_tpu("v5p-32")))
        with pytest.raises(errors.SubmissionRejectedError):
            run_operator(submit("gpu", resource_config=ResourceConfig.with_gpu("H100")))


def test_what_another_task_returned_is_given(local_iris, run_operator):
    """Templates and outputs pull it; without it the message says how to give it."""

    def make():
        with DAG("chain", schedule=None):
            first = IrisSubmitJobOperator(task_id="first", command=["true"])
            return IrisSubmitJobOperator(
                task_id="second",
                command=["echo", first.output["job_id"], "{{ ti.xcom_pull('first')['result'] }}"],
            )

    run_operator(make(), upstream={"first": {"job_id": "/a/b", "result": "r"}})
    assert local_iris.submissions[0].command == ["echo", "/a/b", "r"]
    with pytest.raises(LookupError, match=r"upstream=\{'first': ...\}"):
        run_operator(make())


def test_templates_see_the_run(local_iris, run_operator, monkeypatch):
    """Its dates, configuration, parameters and Airflow's variables; and each run renders anew."""
    monkeypatch.setenv("AIRFLOW_VAR_STORE", "gs://models")
    with DAG("templates", schedule=None, params={"steps": 10, "rate": 0.1}):
        train = IrisSubmitJobOperator(
            task_id="train",
            command="echo {{ ds }} {{ dag_run.conf.why }} {{ params.steps }} {{ params.rate }} {{ var.value.store }}",
        )
    start = datetime(2026, 12, 1, tzinfo=UTC)
    run_operator(train, run_start=start, conf={"why": "manual"}, params={"steps": 20})
    run_operator(train, run_id="run-2", conf={"why": "again"})
    assert local_iris.submissions[0].command == ["echo", "2026-12-01", "manual", "20", "0.1", "gs://models"]
    assert local_iris.submissions[1].command == ["echo", "2026-01-01", "again", "10", "0.1", "gs://models"]


@all_modes
def test_a_placement_is_waited_for(local_iris, iris_connection, run_operator, mode):
    """With a poke_interval of a minute, and half an hour of stability."""
    local_iris.script("gang", Outcome.stay_pending(seconds=600), Outcome.hang())
    with iris_connection.client() as client:
        job = client.submit(JobRequest(name="gang", entrypoint=Entrypoint.from_binary("true"), resources=PAIR))
        run = run_operator(sense(IrisPlacementSensor, job_id=job.job_id, stable_for=1800, **mode))
    assert [each["replica"] for each in run.value] == [0, 1]
    assert run.deferred == ("deferrable" in mode)


@all_modes
def test_a_sensor_runs_into_its_timeout(local_iris, iris_connection, run_operator, mode):
    """A quarter of an hour of it; soft_fail makes it a skip."""
    local_iris.script("gang", Outcome.stay_pending())
    with iris_connection.client() as client:
        job = client.submit(JobRequest(name="gang", entrypoint=Entrypoint.from_binary("true")))
    with pytest.raises(AirflowSensorTimeout):
        run_operator(sense(IrisJobSensor, job_id=job.job_id, timeout=900, **mode))
    with pytest.raises(AirflowSkipException):
        run_operator(sense(IrisJobSensor, job_id=job.job_id, timeout=900, soft_fail=True, **mode))


@all_modes
def test_a_sensor_fails_with_the_job(local_iris, iris_connection, run_operator, mode):
    """In words that a test may look for."""
    local_iris.script("gang", Outcome.fail(3, seconds=300))
    with iris_connection.client() as client:
        job = client.submit(JobRequest(name="gang", entrypoint=Entrypoint.from_binary("true")))
        with pytest.raises(AirflowFailException, match="FAILED"):
            run_operator(sense(IrisJobSensor, job_id=job.job_id, **mode))


@all_modes
def test_free_machines_are_waited_for(local_iris, iris_connection, run_operator, mode):
    """The fleet's only H100 host is taken for a quarter of an hour."""
    gpu = ResourceConfig.with_gpu("H100", count=8)
    local_iris.script("hog", Outcome.succeed(seconds=900))
    with iris_connection.client() as client:
        client.submit(JobRequest(name="hog", entrypoint=Entrypoint.from_binary("true"), resources=gpu))
        assert run_operator(sense(IrisCapacitySensor, resource_config=gpu, **mode)).value["free"]


async def test_an_async_test_can_run_operators(local_iris, run_operator):
    """A running event loop is no hindrance, with pytest-asyncio or any other."""
    await asyncio.sleep(0)
    assert run_operator(submit(deferrable=True)).deferred


def test_a_mapped_task_is_run_after_unmapping(local_iris, run_operator):
    """And before it the message says so."""
    with DAG("mapped", schedule=None) as dag:
        IrisSubmitJobOperator.partial(task_id="sweep").expand(command=[["true"], ["false"]])
    sweep = dag.get_task("sweep")
    with pytest.raises(TypeError, match="unmap"):
        run_operator(sweep)
    run_operator(sweep.unmap({"command": ["true"]}), map_index=1)


def test_nothing_of_airflows_variables_stays(local_iris, run_operator):
    """The task's id is there only while it runs."""
    run_operator(submit())
    assert "AIRFLOW_CTX_TASK_ID" not in os.environ
