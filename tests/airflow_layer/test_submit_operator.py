"""The operator executed without a database against a local Iris, sync and deferrable."""

import socket
import threading
import time

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fray_airflow import Entrypoint, JobRequest, ResourceConfig, create_environment, errors
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing.operator import run_operator

RESULT = 'FRAY_AIRFLOW_RESULT {"loss": 0.5}'


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(**{"task_id": "train", "command": ["true"], **arguments})


both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


@both_modes
def test_a_job_that_succeeds_returns_its_facts_and_its_result(scripted, deferrable):
    """Facts are plain JSON, the gang is on one slice, and the result is the marked line of replica 0."""
    scripted.script("*", Outcome.succeed(["step 1", RESULT], seconds=1))
    run = run_operator(submit(resource_config=ResourceConfig.with_tpu("v5p-16"), deferrable=deferrable))
    value = run.value
    assert run.deferred is deferrable
    assert value["state"] == "SUCCEEDED"
    assert value["result"] == {"loss": 0.5}
    assert [row["replica"] for row in value["placement"]] == [0, 1]
    assert len({row["slice"] for row in value["placement"]}) == 1
    assert value["chip_seconds"] >= 2 * 4 * 0.9
    assert run.xcoms["job_id"] == value["job_id"]
    assert value["job_id"].startswith("/airflow/pipeline-train-")
    assert scripted.calls["LaunchJob"] == 1


@both_modes
def test_a_job_that_fails_raises_the_error_of_its_first_failing_replica(scripted, deferrable):
    """The class is the core one and Airflow's retryable one; the message has exit code, lines and advice."""
    scripted.script("*", Outcome.fail(3, stderr=["out of data"], replica=1, seconds=0.5))
    with pytest.raises(errors.JobFailedError) as caught:
        run_operator(submit(resource_config=ResourceConfig.with_tpu("v5p-16"), deferrable=deferrable))
    error = caught.value
    assert isinstance(error, AirflowException)
    assert not isinstance(error, AirflowFailException)
    assert error.exit_code == 3
    assert error.state == "FAILED"
    assert error.job_id in str(error)
    assert "replica 1 ended with exit code 3" in str(error)
    assert "out of data" in str(error)


@both_modes
def test_a_job_killed_by_somebody_is_not_retried(scripted, deferrable):
    """Who kills a job wants it gone, so Airflow does not start it again."""
    scripted.script("*", Outcome.kill(seconds=0.5))
    with pytest.raises(errors.JobKilledError) as caught:
        run_operator(submit(deferrable=deferrable))
    assert isinstance(caught.value, AirflowFailException)


@both_modes
def test_a_job_that_finds_no_machines_in_time_is_terminated(scripted, deferrable):
    """The error holds Iris's reason, and the job does not wait on."""
    scripted.script("*", Outcome.stay_pending())
    with pytest.raises(errors.PlacementTimeoutError) as caught:
        run_operator(submit(placement_timeout=1, deferrable=deferrable))
    with IrisClient(scripted.target) as client:
        assert client.job_status(caught.value.job_id).state.name == "KILLED"
    assert scripted.calls["TerminateJob"] == 1


def test_the_same_try_again_adopts_its_job(scripted):
    """A worker that died after submission does not cost a second job."""
    scripted.script("*", Outcome.succeed([RESULT], seconds=1))
    operator = submit(wait_for_completion=False)
    first = run_operator(operator)
    second = run_operator(submit())
    assert second.value["job_id"] == first.value["job_id"]
    assert second.value["result"] == {"loss": 0.5}
    assert scripted.calls["LaunchJob"] == 1


def test_a_retry_adopts_a_job_that_still_runs(scripted):
    """The worker of the first try is gone, its job is not."""
    scripted.script("*", Outcome.succeed(seconds=1))
    first = run_operator(submit(wait_for_completion=False))
    second = run_operator(submit(retries=2), try_number=2)
    assert second.value["job_id"] == first.value["job_id"]
    assert scripted.calls["LaunchJob"] == 1


def test_a_retry_after_a_failure_runs_anew(scripted):
    """The job of the first try failed, which is why there is a second one."""
    scripted.script("*", Outcome.fail(1), Outcome.succeed())
    with pytest.raises(errors.JobFailedError):
        run_operator(submit(retries=1))
    run = run_operator(submit(retries=1), try_number=2)
    assert run.value["state"] == "SUCCEEDED"
    assert run.value["job_id"].endswith("-t2")
    assert scripted.calls["LaunchJob"] == 2


def test_a_lost_reply_makes_no_second_job(scripted):
    """The server stored the job and the answer never came: the call is sent again and finds its own job."""
    scripted.lose_reply("LaunchJob")
    run = run_operator(submit())
    with IrisClient(scripted.target) as client:
        assert [job.job_id for job in client.jobs()] == [run.value["job_id"]]


def test_a_name_that_somebody_else_uses_is_refused(scripted):
    """Their job is neither adopted nor replaced."""
    scripted.script("taken", Outcome.hang())
    with IrisClient(scripted.target) as client:
        theirs = client.submit(JobRequest(name="taken", entrypoint=Entrypoint.from_binary("true")))
        with pytest.raises(errors.JobExistsError, match="did not submit"):
            run_operator(submit(job_name="taken"))
        assert not theirs.state().finished


@both_modes
def test_a_controller_that_goes_away_for_some_polls_ends_nothing(scripted, deferrable):
    """Watching outlasts an outage, and tells of it once."""
    scripted.script("*", Outcome.succeed(seconds=1))
    operator = submit(deferrable=deferrable)
    outage = threading.Thread(target=_away_after_launch, args=(scripted,))
    outage.start()
    assert run_operator(operator).value["state"] == "SUCCEEDED"
    outage.join()
    assert scripted.calls["LaunchJob"] == 1


def test_a_controller_that_restarts_when_a_task_starts_is_waited_for(scripted):
    """The try is not lost for it."""
    scripted.fault("GetCurrentUser", times=9)

    class Patient(Submit):
        first_contact_seconds = 60

    with DAG("pipeline", schedule=None):
        operator = Patient(task_id="train", command=["true"])
    assert run_operator(operator).value["state"] == "SUCCEEDED"


def test_without_waiting_only_id_and_state_come_back(scripted):
    """The job goes on by itself."""
    scripted.script("*", Outcome.hang())
    run = run_operator(submit(wait_for_completion=False))
    assert set(run.value) == {"job_id", "state"}


def test_a_function_runs_with_its_arguments(running):
    """Its module need not exist on the cluster."""

    def train(steps, rate):
        print(f'FRAY_AIRFLOW_RESULT {{"steps": {steps}, "rate": {rate}}}')

    run = run_operator(submit(command=None, entrypoint=Entrypoint.from_callable(train, [3], {"rate": 0.5})))
    assert run.value["result"] == {"steps": 3, "rate": 0.5}


def test_templates_are_rendered_anywhere_in_the_spec(running):
    """Numbers that come out of a template as text become numbers."""
    run = run_operator(
        submit(
            resource_config={"tpu": "{{ params.tpu }}", "slice_count": "{{ params.slices }}"},
            command=["bash", "-c", "echo 'FRAY_AIRFLOW_RESULT \"'$GREETING $IRIS_NUM_TASKS'\"'"],
            environment=create_environment(env_vars={"GREETING": "{{ params.greeting }}"}),
        ),
        params={"tpu": "v5p-8", "slices": 2, "greeting": "hello"},
    )
    assert run.value["result"] == "hello 2"
    assert len({row["slice"] for row in run.value["placement"]}) == 2


def test_a_faulty_spec_never_reaches_iris(scripted):
    """After rendering, one error names every fault, and no job was asked for."""
    operator = submit(
        resource_config={"tpu": "{{ params.tpu }}", "ram": "16"}, max_retries_failure="{{ params.retries }}"
    )
    with pytest.raises(errors.InvalidSpecError) as caught:
        run_operator(operator, params={"tpu": "v5p-17", "retries": "-1"})
    assert "v5p-16" in str(caught.value)
    assert isinstance(caught.value, AirflowFailException)
    assert scripted.calls["LaunchJob"] == 0


def test_a_spec_without_templates_is_checked_when_the_dag_is_parsed():
    """The author sees it as an import error, with every fault."""
    with pytest.raises(errors.InvalidSpecError) as caught:
        submit(resource_config={"cpu": 0, "ram": "16"}, priority_band="urgent")
    assert all(name in str(caught.value) for name in ("cpu=0", "ram='16'"))


def test_an_unknown_connection_is_named():
    """Airflow's own error says which."""
    with pytest.raises(Exception, match="nowhere"):
        run_operator(submit(iris_conn_id="nowhere"))


def test_a_refused_port_is_named_with_its_connection(connect, free_port):
    """The error says connection, address and what to check, and Airflow may retry."""
    connect(f"grpc://127.0.0.1:{free_port}")
    with pytest.raises(errors.IrisUnavailableError) as caught:
        run_operator(submit())
    assert "Iris connection 'iris_default'" in str(caught.value)
    assert f"127.0.0.1:{free_port}" in str(caught.value)


def test_a_wrong_token_is_refused_without_being_shown(connect):
    """Nothing of the secret is in the error."""
    with LocalIris(Fleet.of(cpu=1), run="script", token="right") as iris:
        connect(iris.target, password="wrong-secret")
        with pytest.raises(errors.IrisAuthError) as caught:
            run_operator(submit())
    assert "iris_default" in str(caught.value)
    assert "wrong-secret" not in str(caught.value)


def test_an_owner_that_the_server_decides_is_used_for_the_name(connect):
    """Users who are no admins own their jobs, whatever the connection's user."""
    with LocalIris(Fleet.of(cpu=1), run="script", token="right", user_id="carol") as iris:
        connect(iris.target, password="right", login="somebody")
        assert run_operator(submit()).value["job_id"].startswith("/carol/")


def test_every_transport_gives_the_same_job(connect, scripted):
    """gRPC, Connect, and an address that leaves it open."""
    addresses = [scripted.target, scripted.url, scripted.url.removeprefix("http://")]
    for number, address in enumerate(addresses):
        connect(address)
        assert run_operator(submit(), run_id=f"run-{number}").value["state"] == "SUCCEEDED"


def _away_after_launch(iris):
    deadline = time.monotonic() + 20
    while not iris.calls["LaunchJob"] and time.monotonic() < deadline:
        time.sleep(0.01)
    iris.away(polls=12)


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]
