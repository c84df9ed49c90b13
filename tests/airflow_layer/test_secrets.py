"""Secrets by reference, exit codes that are final, and launches that are alike."""

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from fray_airflow import ResourceConfig, errors
from fray_airflow.iris import IrisClient
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing.operator import run_operator


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return IrisSubmitJobOperator(**{"task_id": "train", "command": ["true"], **arguments})


@pytest.fixture
def references(monkeypatch, connect):
    connect("unused", conn_id="hf", password="hf-secret-value")
    monkeypatch.setenv("AIRFLOW_VAR_WANDB", "wandb-secret-value")
    return {"HF_TOKEN": "conn:hf", "WANDB_API_KEY": "var:wandb"}


def test_references_are_resolved_into_the_request_alone(scripted, references, caplog):
    """Iris gets the values as secrets and echoes none; operator, result, XComs and log hold references at most."""
    operator = submit(secrets=references)
    run = run_operator(operator)
    with IrisClient(scripted.target) as client:
        request = client.job_request(run.value["job_id"])
    assert set(request.environment.secrets) == set(references)
    assert not set(references) & set(request.environment.env_vars)
    shown = f"{vars(operator)} {run} {request} {caplog.text}"
    assert "secret-value" not in shown


def test_secrets_can_be_sent_as_variables_too(running, references):
    """For workers that deliver none, as those of the local runtime."""
    command = ["bash", "-c", 'n=$(printf %s "$HF_TOKEN" | wc -c); echo "FRAY_AIRFLOW_RESULT $n"']
    run = run_operator(submit(secrets=references, secrets_as_env=True, command=command))
    assert run.value["result"] == len("hf-secret-value")


def test_a_value_instead_of_a_reference_is_refused_without_being_shown():
    """When the DAG is parsed."""
    with pytest.raises(errors.InvalidSpecError, match="HF_TOKEN is not a reference") as caught:
        submit(secrets={"HF_TOKEN": "hf_abcdef"})
    assert "hf_abcdef" not in str(caught.value)


def test_a_connection_without_a_password_is_named(scripted, connect):
    """And no job is submitted."""
    connect("unused", conn_id="empty")
    with pytest.raises(errors.InvalidSpecError, match="conn:empty"):
        run_operator(submit(secrets={"HF_TOKEN": "conn:empty"}))
    assert scripted.calls["LaunchJob"] == 0


@pytest.mark.parametrize(("codes", "final"), [((3,), True), ((4,), False)])
def test_an_exit_code_may_be_final(scripted, codes, final):
    """The class stays JobFailedError; only what Airflow does with it differs."""
    scripted.script("*", Outcome.fail(3))
    with pytest.raises(errors.JobFailedError) as caught:
        run_operator(submit(no_retry_exit_codes=codes))
    assert isinstance(caught.value, AirflowFailException) is final


def test_the_jobs_budget_makes_retries_inside_iris_take_effect(scripted):
    """Two replicas that may fail once each: the job outlives two failures."""
    scripted.script("*", Outcome.fail(1), Outcome.succeed())
    run = run_operator(submit(max_retries_failure=1, resource_config=ResourceConfig.with_tpu("v5p-16")))
    assert run.value["state"] == "SUCCEEDED"
    with IrisClient(scripted.target) as client:
        assert client.job_request(run.value["job_id"]).max_task_failures == 2


def test_two_deployments_share_an_iris(scripted, connect):
    """Equal DAGs, equal runs: two jobs."""
    jobs = set()
    for deployment in ("blue", "green"):
        connect(scripted.target, extra={"deployment": deployment})
        jobs.add(run_operator(submit()).value["job_id"])
    assert len(jobs) == 2


def test_a_run_that_is_made_again_with_the_same_id_runs_anew(scripted):
    """The deleted run's job succeeded, but not for this run."""
    from datetime import UTC, datetime

    first = run_operator(submit(), run_start=datetime(2026, 1, 1, tzinfo=UTC))
    second = run_operator(submit(), run_start=datetime(2026, 1, 2, tzinfo=UTC))
    assert first.value["job_id"] == second.value["job_id"]
    assert scripted.calls["LaunchJob"] >= 2
