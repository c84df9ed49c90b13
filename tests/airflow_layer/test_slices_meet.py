"""A launch with a job per slice: the tasks of all slices find each other, on the embedded and on the real Iris."""

import json
import threading
import time

import pytest
from airflow.sdk import DAG

from fray_airflow import Entrypoint, ResourceConfig, errors
from fray_airflow.iris import IrisClient, convert_entrypoint
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.operators.explain import explain_operator
from fray_airflow.results import ResultOptions
from fray_airflow.testing.operator import run_operator

SLICES = ResourceConfig.with_tpu("v5p-16", slice_count=2)
MEET = """
import os, socket, time
host, _, port = os.environ["MEGASCALE_COORDINATOR_ADDRESS"].rpartition(":")
count, index = (int(os.environ["FRAY_AIRFLOW_PROCESS_" + name]) for name in ("COUNT", "INDEX"))
me = "slice %s task %s" % (os.environ["MEGASCALE_SLICE_ID"], os.environ["IRIS_TASK_ID"].rpartition("/")[2][0])
if index:
    while True:
        try:
            call = socket.create_connection((host, int(port)), 60)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    call.sendall(me.encode())
    call.close()
else:
    with socket.create_server((os.environ["IRIS_BIND_HOST"], int(os.environ["MEGASCALE_PORT"]))) as server:
        calls = [server.accept()[0] for _ in range(count - 1)]
        came = sorted([me, *(call.makefile().read() for call in calls)])
    print("%d of %d came: %s" % (len(came), count, ", ".join(came)))
"""
ALL_CAME = "4 of 4 came: slice 0 task 0, slice 0 task 1, slice 1 task 0, slice 1 task 1"
WAIT_SECONDS = 60

both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(
            **{
                "task_id": "train",
                "resource_config": SLICES,
                "slice_strategy": "job_per_slice",
                "command": ["python", "-c", MEET],
                "poll_interval": 0.5,
                **arguments,
            }
        )


def lines(address, job_id):
    with IrisClient(address) as client:
        return [line.text for line in client.logs(job_id).lines]


@pytest.fixture
def iris(connect):
    """A local Iris with two slices, whose tasks are real processes."""
    with LocalIris(Fleet.of(tpu={"v5p-16": 2})) as iris:
        connect(iris.target)
        yield iris


@both_modes
def test_the_tasks_of_all_slices_reach_one_coordinator(iris, deferrable):
    """The program does nothing for it but read its variables."""
    run = run_operator(submit(deferrable=deferrable))
    assert ALL_CAME in lines(iris.target, run.value["job_id"])
    assert run.deferred is deferrable


def test_a_function_finds_the_same_variables(iris):
    """IRIS_SLICE_COUNT is not among them: a program that reads it takes the slices for one job."""

    def place():
        import os

        return [os.environ["FRAY_AIRFLOW_PROCESS_INDEX"], os.environ.get("IRIS_SLICE_COUNT")]

    entrypoint = Entrypoint.from_callable(place, result=ResultOptions(senders="all"))
    run = run_operator(submit(command=None, entrypoint=entrypoint, result_from="all"))
    assert run.value["result"] == [[str(index), None] for index in range(4)]


def test_slices_that_lost_their_machines_meet_anew(iris):
    """All of them start again, under names of their own, and nobody takes an address of the first launch."""

    def preempt_a_slice():
        until = time.monotonic() + WAIT_SECONDS
        with IrisClient(iris.target) as client:
            while time.monotonic() < until:
                for job_id in [job.job_id for job in client.jobs() if job.job_id.endswith("-s1")]:
                    if any("have met" in line.text for line in client.logs(job_id).lines):
                        iris.preempt(f"{job_id}/0")
                        return
                time.sleep(0.1)

    first_waits = f"case $FRAY_AIRFLOW_ROUND in *'\"number\": 0'*) sleep 60;; esac; exec python3 -c '{MEET}'"
    thread = threading.Thread(target=preempt_a_slice)
    thread.start()
    run = run_operator(submit(command=["bash", "-c", first_waits], max_retries_preemption=1))
    thread.join()
    assert run.value["job_id"].endswith("-r1")
    assert ALL_CAME in lines(iris.target, run.value["job_id"])


def test_a_program_that_ends_badly_ends_the_launch_with_its_exit_code(iris):
    """What the script before it does not hide."""
    script = "echo no weights >&2; exit $(( FRAY_AIRFLOW_PROCESS_INDEX == 2 ? 17 : 0 ))"
    with pytest.raises(errors.JobFailedError, match="replica 2 ended with exit code 17") as caught:
        run_operator(submit(command=["bash", "-c", script]))
    assert caught.value.exit_code == 17
    assert "no weights" in str(caught.value)


def test_a_program_may_arrange_it_itself(iris):
    """With slice_rendezvous=False its command is what Iris starts."""
    command = ["bash", "-c", 'echo "of ${MEGASCALE_NUM_SLICES:-none}"']
    run = run_operator(submit(command=command, slice_rendezvous=False))
    assert lines(iris.target, run.value["job_id"]) == ["of none", "of none"]
    with IrisClient(iris.target) as client:
        assert list(client.job_request(run.value["job_id"]).entrypoint.run_command.argv) == command
    assert iris.calls["RegisterEndpoint"] == 0


def test_the_explanation_shows_what_iris_starts():
    """The command is told as the author wrote it, the request as it is sent."""
    told = explain_operator(submit())
    assert told.runs.startswith("python -c")
    assert "_fray/rendezvous.py" in told.request


def test_tasks_wait_longer_than_the_launch_keeps_slices():
    """So that slices that wait for others are given back, and do not fail."""
    (rung,) = submit(hold_timeout=60)._build_rungs({}, lambda text, _: text)
    files = convert_entrypoint(rung.job.entrypoint).workdir_files
    assert json.loads(files["_fray/rendezvous.json"]) == {"tasks": 2, "seconds": 60 + 1800}


def test_the_real_iris_brings_two_slices_together(real_iris_connect, connect):
    """Two gangs of two VMs each, which Iris has placed as two jobs, and one coordinator."""
    connect(real_iris_connect.target, login="meeting")
    run = run_operator(submit(placement_timeout=120, deferrable=True))
    slices = [row["slice"] for row in run.value["placement"]]
    assert slices[0] == slices[1] != slices[2] == slices[3]
    assert ALL_CAME in lines(real_iris_connect.target, run.value["job_id"])
