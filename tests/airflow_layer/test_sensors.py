"""The sensors executed without a database, in each mode: what they return, tell and leave alone."""

import sys
import time
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from sensor_modes import MODES, make_sensor, run_sensor
from sensor_table import SCENES, rows, written

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.sensors import IrisCapacitySensor, IrisJobSensor, IrisPlacementSensor
from fray_airflow.triggers import IrisCapacityTrigger, IrisJobStateTrigger, IrisPlacementTrigger

GANG = ResourceConfig.with_tpu("v5p-16")
FULL = "0 of 1 places for 3 H100 free; the group is at its maximum of 1 slice"
all_modes = pytest.mark.parametrize("mode", MODES)


def submit(iris, name="watched", command="true", *args, **fields):
    fields.setdefault("resources", GANG)
    job = JobRequest(name=name, entrypoint=Entrypoint.from_binary(command, list(args)), **fields)
    if isinstance(iris, IrisClient):
        return iris.submit(job).job_id
    with IrisClient(iris.target) as client:
        return client.submit(job).job_id


def run(kind, mode, **arguments):
    return run_sensor(lambda: make_sensor(kind, mode, **arguments))


@pytest.mark.parametrize("kind", SCENES, ids=lambda kind: kind.__name__)
def test_the_documented_outcomes_are_those_of_each_mode(kind, monkeypatch):
    """docs/sensors.md says what happens, and it is the same in every mode."""
    monkeypatch.setenv("AIRFLOW_CONN_IRIS_DEFAULT", "")
    found = rows(kind)
    assert found == [line for line in written().splitlines() if f"`{kind.__name__}`" in line]
    assert all(len({cell.strip() for cell in line.strip("|").split("|")[2:]}) == 1 for line in found)


@all_modes
def test_placement_is_returned_per_replica_with_its_machine(scripted, mode):
    """Enough to find the machines again: worker, slice, place, kind, and whether they may be taken back."""
    scripted.script("watched", Outcome.hang())
    job_id = submit(scripted)
    first, second = run(IrisPlacementSensor, mode, job_id=job_id)
    assert (first["replica"], second["replica"]) == (0, 1)
    assert first["slice"] == second["slice"] != ""
    assert first["worker"] != second["worker"]
    shared = {"region": "local", "zone": "local-a", "device": "v5p-16", "preemptible": True}
    assert shared.items() <= first.items()
    assert shared.items() <= second.items()


@all_modes
def test_a_placement_that_is_lost_is_counted_anew(scripted, mode):
    """Half a second of the first attempt does not count towards the second that the placement has to hold."""
    scripted.script("watched", Outcome.preempt(seconds=0.5), Outcome.hang())
    job_id = submit(scripted)
    run(IrisPlacementSensor, mode, job_id=job_id, stable_for=timedelta(seconds=1))
    with IrisClient(scripted.target) as client:
        tasks = client.tasks(job_id)
    assert [task.attempts[-1].attempt_id for task in tasks] == [1, 1]
    assert all(datetime.now(UTC) - task.started_at >= timedelta(seconds=1) for task in tasks)


@all_modes
def test_a_job_that_is_done_need_not_hold_its_placement(scripted, mode):
    """It was placed, and nothing can be lost any more."""
    scripted.script("watched", Outcome.succeed(seconds=0.3))
    assert len(run(IrisPlacementSensor, mode, job_id=submit(scripted), stable_for=3600)) == 2


@all_modes
def test_any_end_is_an_end_for_a_sensor_that_waits_for_one(scripted, mode):
    """`finished` returns how it ended, for a branch to look at."""
    scripted.script("watched", Outcome.fail(3, seconds=0.3))
    job_id = submit(scripted)
    assert run(IrisJobSensor, mode, job_id=job_id, state="finished") == {"job_id": job_id, "state": "FAILED"}


@all_modes
def test_a_failed_job_is_told_with_its_reason(scripted, mode):
    """The message names the job, its state and what Iris says of it."""
    scripted.script("watched", Outcome.fail(3, seconds=0.3))
    with pytest.raises(AirflowFailException, match=r"/airflow/watched ended as FAILED: .+ Look at the task"):
        run(IrisJobSensor, mode, job_id=submit(scripted))


@all_modes
def test_a_template_without_a_value_is_a_fault_of_the_job_id(scripted, mode):
    """An XCom that was never pushed is rendered as "None": here, one that the sensor itself would have pushed."""
    with pytest.raises(AirflowFailException, match="'None' is not a job id like"):
        run(IrisPlacementSensor, mode, job_id="{{ ti.xcom_pull(key='job_id') }}")


@all_modes
def test_an_unknown_job_fails_at_once(scripted, mode):
    with pytest.raises(AirflowFailException, match="/airflow/nobody"):
        run(IrisJobSensor, mode, job_id="/airflow/nobody")


@all_modes
def test_capacity_comes_when_the_slice_is_free(scripted, mode, capsys):
    """The log says what is missing, the result what was found."""
    scripted.script("watched", Outcome.succeed(seconds=1))
    job_id = submit(scripted)
    run(IrisPlacementSensor, mode, job_id=job_id)
    found = run(IrisCapacitySensor, mode, resource_config=GANG)
    assert found == {"wanted": 1, "free": 1, "headroom": False, "text": "1 of 1 v5p-16 slices free"}
    assert "0 of 1 v5p-16 slices free; the group is at its maximum of 1 slice" in capsys.readouterr().out


def test_a_resource_config_may_come_from_a_template(scripted):
    """As for the operator: rendered first, then read."""
    found = run(IrisCapacitySensor, "poke", resource_config={"tpu": "{{ 'v5p-8' }}", "slice_count": "2"})
    assert (found["wanted"], found["free"]) == (2, 2)


@all_modes
def test_a_device_that_no_group_has_fails_with_what_there_is(scripted, mode):
    """Waiting would not help, unless somebody changes the cluster."""
    with pytest.raises(
        AirflowFailException, match=r"tpu v6e-8, .* its groups have cpu, gpu h100, tpu v5p-16, tpu v5p-8"
    ):
        run(IrisCapacitySensor, mode, resource_config={"tpu": "v6e-8"})


@all_modes
@pytest.mark.parametrize("call", ["GetAutoscalerStatus", "ListWorkers"])
@pytest.mark.parametrize("code", ["permission_denied", "unimplemented"])
def test_a_cluster_that_hides_its_machines_is_told_apart(scripted, mode, call, code):
    """One error names both calls that are needed."""
    scripted.fault(call, code=code)
    with pytest.raises(AirflowFailException, match="takes GetAutoscalerStatus and ListWorkers"):
        run(IrisCapacitySensor, mode, resource_config=GANG)


def test_a_token_that_expires_is_read_again_by_the_trigger(scripted):
    """Once for each time that it stops to work."""
    scripted.script("watched", Outcome.stay_pending(0.5), Outcome.hang())
    job_id = submit(scripted)

    def make():
        # After the first look, which is the worker's.
        if scripted.calls["ListTasks"]:
            return make_sensor(IrisPlacementSensor, "deferrable", job_id=job_id)
        return make_sensor(FaultAfterPoke, "deferrable", job_id=job_id)

    class FaultAfterPoke(IrisPlacementSensor):
        def poke(self, context):
            seen = super().poke(context)
            scripted.fault("*", code="unauthenticated")
            return seen

    assert len(run_sensor(make)) == 2


@all_modes
@pytest.mark.parametrize("kind", [IrisPlacementSensor, IrisJobSensor])
def test_a_job_that_does_not_exist_fails_at_once_and_without_a_retry(scripted, kind, mode):
    """Waiting would not bring it. What is no job id at all is told as such, before any call."""
    with pytest.raises(AirflowFailException, match="/airflow/nobody"):
        run(kind, mode, job_id="/airflow/nobody")
    calls = scripted.calls["GetJobStatus"]
    with pytest.raises(AirflowFailException, match="'nobody' is not a job id like"):
        run(kind, mode, job_id="nobody")
    assert scripted.calls["GetJobStatus"] == calls == 1


@all_modes
def test_no_sensor_ends_a_job(scripted, mode):
    """Not when it times out either."""
    scripted.script("watched", Outcome.hang())
    job_id = submit(scripted)
    with pytest.raises(AirflowException):
        run(IrisJobSensor, mode, job_id=job_id, timeout=0.2)
    assert scripted.calls["TerminateJob"] == 0


@all_modes
def test_a_missing_connection_follows_never_fail(mode, monkeypatch):
    """Airflow's own error, in every mode."""
    arguments = {"job_id": "/u/j", "iris_conn_id": "nowhere"}
    with pytest.raises(AirflowException, match="nowhere"):
        run(IrisJobSensor, mode, **arguments)
    with pytest.raises(AirflowSkipException):
        run(IrisJobSensor, mode, never_fail=True, **arguments)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (IrisJobSensor, {"job_id": "/u/j", "state": "done"}, "state='done' is none of running, succeeded, finished"),
        (IrisPlacementSensor, {"job_id": "/u/j", "stable_for": -1}, "stable_for=-1 is not a time"),
        (IrisPlacementSensor, {"job_id": "/u/j", "stable_for": "1m"}, "stable_for='1m' is not a time"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_dag_is_parsed(kind, arguments, message):
    with pytest.raises(InvalidSpecError, match=message):
        make_sensor(kind, "poke", **arguments)


@pytest.mark.parametrize(
    "trigger",
    [
        IrisPlacementTrigger("iris_default", "/u/j", 3, 60),
        IrisJobStateTrigger("iris_default", "/u/j", "running", 3),
        IrisCapacityTrigger("iris_default", {"cpu": 2}, False, 3),
    ],
    ids=lambda trigger: type(trigger).__name__,
)
def test_a_trigger_comes_back_from_its_row(trigger):
    """The path leads to the class, and the arguments make an equal question."""
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    copy = getattr(import_module(module), name)(**arguments, newer="argument")
    assert type(copy) is type(trigger)
    assert copy.serialize() == trigger.serialize()
    assert copy.question == trigger.question


@pytest.fixture(params=["local", "real"])
def either(request):
    """An Iris with one H100 host that nobody uses, the embedded or the real one."""
    if request.param == "real":
        with IrisClient(request.getfixturevalue("real_iris_connect").target) as client:
            yield client
    else:
        with LocalIris(Fleet.of(gpu={"H100": 1})) as iris, IrisClient(iris.target) as client:
            yield client


def until(client, config, wanted, seconds=60):
    end = time.monotonic() + seconds
    while (found := client.capacity(config)).text != wanted:
        assert time.monotonic() < end, found


def host_of(client, job_id):
    """The job may have to wait until the one before it is drained."""
    end = time.monotonic() + 30
    while not (found := [each for each in client.workers() if f"{job_id}/0" in each.task_ids]):
        assert time.monotonic() < end, client.job_status(job_id)
        time.sleep(0.1)
    return found[0]


def test_local_and_real_iris_tell_the_same_of_their_machines(either):
    """What a job leaves of its host counts, and a full host whose group is at its maximum is told as such."""
    three = ResourceConfig.with_gpu("H100", 3)
    for gpus, left in ((2, "2 places for 3 H100 free, 1 wanted"), (8, FULL)):
        resources = ResourceConfig.with_gpu("H100", gpus)
        job_id = submit(either, f"takes-{gpus}", "sleep", "300", resources=resources)
        worker = host_of(either, job_id)
        until(either, three, left)
        assert (worker.failures, worker.cpu_millicores, worker.accelerators) == (0, 208_000, 8)
        either.terminate(job_id)
    until(either, resources, "1 of 1 places for 8 H100 free")


@pytest.mark.parametrize("mode", ["poke", "deferrable"])
def test_the_sensors_agree_with_a_real_iris(real_iris_connect, connect, mode):
    """Three of three slices are taken; one comes free with the end of its job, and the sensor sees it."""
    connect(real_iris_connect.target)
    with IrisClient(real_iris_connect.target) as client:
        ids = [submit(real_iris_connect, f"{mode}-{number}", "sleep", "300" if number else "12") for number in range(3)]
        try:
            placed = [run(IrisPlacementSensor, mode, job_id=job_id, timeout=60, stable_for=1) for job_id in ids]
            assert len({row["slice"] for rows in placed for row in rows}) == 3
            assert {(row["device"], row["preemptible"]) for rows in placed for row in rows} == {("v5p-16", True)}
            full = client.capacity(GANG)
            assert (full.fits, full.text) == (
                False,
                "0 of 1 v5p-16 slices free; the group is at its maximum of 3 slices",
            )
            assert run(IrisJobSensor, mode, job_id=ids[1], state="running")["state"] == "RUNNING"
            found = run(IrisCapacitySensor, mode, resource_config=GANG, timeout=60)
            assert (found["wanted"], found["free"]) == (1, 1)
            assert run(IrisJobSensor, mode, job_id=ids[0])["state"] == "SUCCEEDED"
        finally:
            for job_id in ids:
                client.terminate(job_id)
