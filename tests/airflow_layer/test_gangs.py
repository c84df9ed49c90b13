"""The level that the hosts of a GPU gang share: the task's, else the connection's, and what is said of a wrong one."""

import pytest
from airflow.sdk import DAG, dag, task

from fray_airflow import ResourceConfig, errors
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.operators.explain import explain_operator
from fray_airflow.sensors import IrisCapacitySensor
from fray_airflow.testing.operator import run_operator

HOSTS = ResourceConfig.with_gpu("H100", 8, replicas=2)


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(
            **{
                "task_id": "train",
                "resource_config": HOSTS,
                "command": ["true"],
                "poll_interval": 0.5,
                "placement_timeout": 5,
                **arguments,
            }
        )


both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


@pytest.fixture
def two_hosts():
    """Two GPU hosts that share a zone and a region, and no level that Iris itself would name."""
    with LocalIris(Fleet.of(gpu={"H100": 2}), run="script") as iris:
        yield iris


def level_of(iris, job_id):
    with IrisClient(iris.target) as client:
        return client.job_request(job_id).coscheduling.group_by


@pytest.mark.parametrize(
    ("of_task", "of_connection", "level"),
    [("zone", None, "zone"), (None, "region", "region"), ("zone", "nowhere", "zone")],
)
def test_the_tasks_level_goes_before_the_connections(two_hosts, connect, of_task, of_connection, level):
    connect(two_hosts.target, extra={"gpu_gang_level": of_connection} if of_connection else {})
    run = run_operator(submit(gpu_gang_level=of_task))
    assert level_of(two_hosts, run.value["job_id"]) == level
    assert len({row["worker"] for row in run.value["placement"]}) == 2


def test_a_template_gives_the_level(two_hosts, connect):
    connect(two_hosts.target)
    run = run_operator(submit(gpu_gang_level="{{ params.level }}"), params={"level": "zone"})
    assert level_of(two_hosts, run.value["job_id"]) == "zone"


def test_a_function_takes_the_level_too(two_hosts, connect):
    """@task.iris has the operator's arguments."""
    connect(two_hosts.target)

    @dag(schedule=None)
    def pipeline():
        @task.iris(resource_config=HOSTS, gpu_gang_level="zone")
        def train():
            return 1

        train()

    trained = pipeline().get_task("train")
    assert trained.gpu_gang_level == "zone"
    assert "gpu_gang_level" in trained.template_fields
    assert explain_operator(trained).coscheduling == "zone"


def test_jobs_of_other_kinds_do_without(scripted):
    """So that a DAG can set it for all of its tasks."""
    run = run_operator(submit(resource_config=ResourceConfig.with_tpu("v5p-16"), gpu_gang_level="zone"))
    assert level_of(scripted, run.value["job_id"]) == "tpu-name"


@pytest.mark.parametrize("level", ["", "two words", 7])
def test_a_level_that_cannot_be_one_is_refused_when_the_dag_is_parsed(level):
    """Also beside a template elsewhere."""
    with pytest.raises(errors.InvalidSpecError, match=f"gpu_gang_level={level!r} is no name of a worker attribute"):
        submit(gpu_gang_level=level, command=["train", "{{ ds }}"])


def test_a_level_that_renders_to_nothing_is_refused_before_anything_is_submitted(two_hosts, connect):
    connect(two_hosts.target)
    with pytest.raises(errors.InvalidSpecError, match=r"gpu_gang_level='' .* leafgroup, nvlink.domain"):
        run_operator(submit(gpu_gang_level="{{ params.level }}"), params={"level": ""})
    assert two_hosts.calls["LaunchJob"] == 0


@both_modes
def test_a_level_that_no_worker_has_is_said_with_those_that_there_are(two_hosts, connect, capsys, deferrable):
    """Iris would let the job wait for ever. The log says so at once, and the timeout's error repeats it."""
    connect(two_hosts.target)
    with pytest.raises(errors.PlacementTimeoutError) as caught:
        run_operator(submit(deferrable=deferrable))
    advice = (
        "No worker that would do has the attribute 'leafgroup', so Iris never places this gang. GPU workers share "
        "region (up to 2 hosts), scale-group (up to 2 hosts), zone (up to 2 hosts): set gpu_gang_level, of the task or "
        "of the connection, to one of these."
    )
    out = capsys.readouterr().out
    assert out.count(advice) == 1
    assert str(caught.value).endswith(advice)
    assert "none have 'leafgroup' attribute" in caught.value.pending_reason


def test_an_explanation_names_the_tasks_level_and_says_where_it_comes_from():
    told = explain_operator(submit(gpu_gang_level="zone"), gpu_gang_level="of-the-connection")
    assert told.coscheduling == "zone"
    assert any("share one value of 'zone'" in line for line in told.outlook)
    hidden = explain_operator(submit(gpu_gang_level="{{ ds }}"), gpu_gang_level="of-the-connection")
    assert hidden.coscheduling == "of-the-connection"
    assert hidden.unrendered["gpu_gang_level"] == "{{ ds }}"


@both_modes
def test_capacity_is_asked_for_the_level_of_the_task_to_come(two_hosts, connect, deferrable):
    """Both hosts are free, in one zone; under no leaf."""
    connect(two_hosts.target)

    def sensor(**arguments):
        with DAG("sensing", schedule=None):
            return IrisCapacitySensor(
                **{
                    "task_id": "wait",
                    "resource_config": HOSTS,
                    "allow_scale_up": False,
                    "poke_interval": 0.2,
                    "timeout": 10,
                    "deferrable": deferrable,
                    **arguments,
                }
            )

    assert run_operator(sensor(gpu_gang_level="zone")).value["free"] == 2
    with IrisClient(two_hosts.target) as client:
        assert "No worker that would do has the attribute 'leafgroup'" in client.capacity(HOSTS).text
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="gpu_gang_level='two words' is no name"):
        run_operator(sensor(gpu_gang_level="two words"))
