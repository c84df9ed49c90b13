"""The script that starts one slice of several, called as Iris calls it, against the embedded Iris."""

from __future__ import annotations

import ast
import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib import resources

import pytest

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris import IrisClient, convert_entrypoint
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.calls import Call
from fray_airflow.iris.operations import Operation
from fray_airflow.iris.shipped import rendezvous
from fray_airflow.job import Rendezvous
from fray_airflow.local import Fleet, LocalIris, Outcome

JOBS = ("/me/train-t1", "/me/train-t1-s1")
TASKS = 2
REGISTER = Call(
    "RegisterEndpoint",
    "/iris.cluster.EndpointService/RegisterEndpoint",
    Controller.RegisterEndpointRequest,
    Controller.RegisterEndpointResponse,
)
REPORT = "import json, os; print(json.dumps(dict(os.environ)))"
WAIT_SECONDS = 30


class Launch:
    """Two jobs of two tasks each that Iris takes for running, and the processes of their tasks."""

    def __init__(self, iris, folder):
        self.iris = iris
        self.folder = folder
        self.processes = {}

    def submit(self, job_id):
        name = job_id.rpartition("/")[2]
        job = JobRequest(name=name, entrypoint=Entrypoint.from_binary("true"), resources=ResourceConfig(replicas=TASKS))
        with IrisClient(self.iris.url, user="me") as client:
            client.submit(job)
            until(lambda: all(task.state.name == "RUNNING" for task in client.tasks(job_id)))

    def start(self, slice, index, command=(sys.executable, "-c", REPORT), *, seconds=WAIT_SECONDS, attempt=0, env=()):
        entrypoint = Entrypoint(command=tuple(command), rendezvous=Rendezvous(TASKS, seconds))
        runtime = convert_entrypoint(entrypoint)
        workdir = self.folder / f"{slice}-{index}"
        for name, content in runtime.workdir_files.items():
            path = workdir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        variables = {
            "PATH": os.environ["PATH"],
            "IRIS_WORKDIR": str(workdir),
            "IRIS_PYTHON": sys.executable,
            "IRIS_CONTROLLER_URL": self.iris.url,
            "IRIS_ADVERTISE_HOST": "127.0.0.1",
            "IRIS_TASK_ID": f"{JOBS[slice]}/{index}:{attempt}",
            LAUNCH_ENV: "place.life",
            "FRAY_AIRFLOW_SLICE_INDEX": str(slice),
            "FRAY_AIRFLOW_SLICE_JOBS": ",".join(JOBS),
            **dict(env),
        }
        self.processes[slice, index] = subprocess.Popen(
            list(runtime.run_command.argv),
            env={name: value for name, value in variables.items() if value is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return self.processes[slice, index]

    def start_others(self, *but, **options):
        for place in ((slice, index) for slice in range(len(JOBS)) for index in range(TASKS)):
            if place not in but:
                self.start(*place, **options)

    def register(self, task_id, name, address="127.0.0.1:1"):
        request = Controller.RegisterEndpointRequest(name=name, address=address, task_id=task_id)
        with IrisClient(self.iris.url) as client:
            client.run(Operation(REGISTER, request.SerializeToString(), REGISTER.reply.FromString))

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.communicate()


def until(wanted):
    end = time.monotonic() + WAIT_SECONDS
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.02)


def ended(process):
    """Exit code, lines of stdout, and stderr."""
    out, err = process.communicate(timeout=WAIT_SECONDS)
    return process.returncode, out.splitlines(), err


def told(process):
    """The variables that its command found."""
    code, lines, err = ended(process)
    assert (code, err) == (0, "")
    return json.loads(lines[-1])


@pytest.fixture
def launch(tmp_path):
    with LocalIris(Fleet.of(cpu=2), run="script") as iris:
        iris.script("*", *[Outcome.hang()] * 20)
        launch = Launch(iris, tmp_path)
        try:
            for job_id in JOBS:
                launch.submit(job_id)
            yield launch
        finally:
            launch.end()


def test_all_tasks_agree_on_a_coordinator_and_know_their_place(launch):
    """With what libtpu reads, and the same in plain words; IRIS_SLICE_COUNT is not set."""
    launch.start_others()
    found = [told(process) for process in launch.processes.values()]
    (address,) = {each["MEGASCALE_COORDINATOR_ADDRESS"] for each in found}
    host, _, port = address.partition(":")
    assert host == "127.0.0.1"
    assert {each["MEGASCALE_PORT"] for each in found} == {port}
    assert [each["MEGASCALE_SLICE_ID"] for each in found] == ["0", "0", "1", "1"]
    assert {each["MEGASCALE_NUM_SLICES"] for each in found} == {"2"}
    (plain,) = {each["FRAY_AIRFLOW_COORDINATOR_ADDRESS"] for each in found}
    assert plain.startswith("127.0.0.1:")
    # Two programs listen on the coordinator's host: libtpu and jax.distributed.
    assert plain != address
    assert [each["FRAY_AIRFLOW_PROCESS_INDEX"] for each in found] == ["0", "1", "2", "3"]
    assert {each["FRAY_AIRFLOW_PROCESS_COUNT"] for each in found} == {"4"}
    assert not any("IRIS_SLICE_COUNT" in each for each in found)


def test_the_first_task_of_each_slice_says_that_they_have_met(launch):
    """On stdout: the last line of stderr is what Iris gives as the reason of a failure."""
    launch.start_others(command=["true"])
    for (_, index), process in launch.processes.items():
        code, lines, err = ended(process)
        assert (code, err) == (0, "")
        assert [line.startswith("2 slices of 2 tasks have met after") for line in lines] == [True] * (index == 0)


@pytest.mark.parametrize(
    ("name", "task_id"),
    [
        ("fray_airflow/me/train-t1/place.life/1/1/1", f"{JOBS[1]}/1"),
        ("fray_airflow/me/train-t1/place.former/0/1/1", f"{JOBS[1]}/1"),
        ("fray_airflow/me/train-t1-r1/place.life/0/1/1", f"{JOBS[1]}/1"),
        ("fray_airflow/me/train-t1/place.life/0/1/1", f"{JOBS[1]}/0"),
    ],
    ids=["another-attempt", "another-life", "another-launch", "another-task"],
)
def test_an_address_of_another_launch_attempt_or_task_is_not_taken(launch, name, task_id):
    """Iris lists it until its lease ends. So a task waits, and at the end says which slice has not come."""
    launch.register(task_id, name)
    launch.start_others((1, 1), seconds=1)
    for place, process in launch.processes.items():
        code, lines, err = ended(process)
        assert (code, lines) == (1, []), place
        assert err == (
            "rendezvous.py: the slices have not met within 1 s: 1 of 2 tasks of slice 1 did not come, "
            "whose job /me/train-t1-s1 is RUNNING\n"
        )


def test_the_first_slices_address_of_an_earlier_attempt_is_not_taken(launch):
    """What counts is registered by this very attempt, also for the coordinator."""
    for name in ("0/0", "coordinator"):
        launch.register(f"{JOBS[0]}/0", f"fray_airflow/me/train-t1/place.life/1/{name}")
    launch.start_others()
    for process in launch.processes.values():
        assert not told(process)["MEGASCALE_COORDINATOR_ADDRESS"].endswith(":1")


def test_a_slice_that_never_comes_is_named_with_the_state_of_its_job(launch):
    """And with what Iris gives as the reason."""
    with IrisClient(launch.iris.url, user="me") as client:
        client.terminate(JOBS[1])
    code, lines, err = ended(launch.start(0, 0, seconds=0.5))
    assert (code, lines) == (1, [])
    assert err == (
        "rendezvous.py: the slices have not met within 0.5 s: "
        "1 of 2 tasks of slice 0 did not come, whose job /me/train-t1 is RUNNING; "
        "2 of 2 tasks of slice 1 did not come, whose job /me/train-t1-s1 is KILLED (Terminated by user)\n"
    )


def test_a_controller_that_is_away_for_a_while_is_waited_for(launch):
    """Refused calls and lost replies cost time only."""
    launch.iris.fault("RegisterEndpoint", times=2)
    launch.iris.lose_reply("RegisterEndpoint")
    launch.iris.fault("ListEndpoints", times=4)
    launch.start_others()
    assert [told(each)["FRAY_AIRFLOW_PROCESS_INDEX"] for each in launch.processes.values()] == ["0", "1", "2", "3"]


def test_a_controller_that_stays_away_is_named(launch):
    """Instead of the slices, of which nothing is known."""
    process = launch.start(0, 0, seconds=0.5, env={"IRIS_CONTROLLER_URL": "http://127.0.0.1:1"})
    code, _, err = ended(process)
    assert code == 1
    assert err.count("\n") == 1
    assert "The last call failed: http://127.0.0.1:1/iris.cluster.EndpointService/RegisterEndpoint:" in err


def test_a_task_that_iris_has_given_up_ends_at_once(launch):
    """It can never be part of this launch again, so that there is nothing to wait for."""
    code, _, err = ended(launch.start(1, 0, attempt=3))
    assert code == 1
    assert "Task /me/train-t1-s1/0 attempt 3 is no longer current" in err


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("FRAY_AIRFLOW_SLICE_JOBS", None, "FRAY_AIRFLOW_SLICE_JOBS is not set"),
        ("IRIS_ADVERTISE_HOST", None, "IRIS_ADVERTISE_HOST is not set"),
        ("MEGASCALE_PORT", "any", "MEGASCALE_PORT='any' is not the number of a port"),
    ],
)
def test_a_variable_that_is_wrong_is_named(launch, variable, value, words):
    """In one line, which Iris shows as the reason."""
    code, _, err = ended(launch.start(0, 0, env={variable: value}))
    assert code == 1
    assert err.startswith("rendezvous.py: ")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("env", "megascale", "coordinator"),
    [
        ({"IRIS_PORT_MEGASCALE": "4711", "IRIS_PORT_COORDINATOR": "4712"}, "127.0.0.1:4711", "127.0.0.1:4712"),
        ({"IRIS_PORT_MEGASCALE": "4711", "MEGASCALE_PORT": "8081"}, "127.0.0.1:8081", None),
        ({"IRIS_ADVERTISE_HOST": "fd00::7", "MEGASCALE_PORT": "8081"}, "[fd00::7]:8081", None),
    ],
    ids=["of-iris", "of-the-author", "ipv6"],
)
def test_ports_that_are_set_are_taken(launch, env, megascale, coordinator):
    """By the job's `ports`, or by the author for a firewall."""
    launch.start_others(env=env)
    for process in launch.processes.values():
        found = told(process)
        assert found["MEGASCALE_COORDINATOR_ADDRESS"] == megascale
        assert found["MEGASCALE_PORT"] == megascale.rpartition(":")[2]
        assert coordinator in (None, found["FRAY_AIRFLOW_COORDINATOR_ADDRESS"])


def test_where_iris_keeps_no_port_a_free_one_is_taken(launch):
    """It then says 0, which is no address. The programs can listen on it."""
    launch.start_others(env={"IRIS_PORT_MEGASCALE": "0"})
    for process in launch.processes.values():
        host, _, port = told(process)["MEGASCALE_COORDINATOR_ADDRESS"].rpartition(":")
        with socket.create_server((host, int(port))) as server:
            assert server.getsockname()[1] in rendezvous.PORTS


def test_exit_code_and_standard_streams_are_the_commands_own(launch):
    """It has taken the process over."""
    launch.start_others((1, 1))
    script = 'echo out; echo err >&2; echo "$0 $$"; exit 17'
    process = launch.start(1, 1, ["sh", "-c", script, "a b"])
    assert ended(process) == (17, ["out", f"a b {process.pid}"], "err\n")


def test_a_signal_reaches_the_command(launch):
    """Iris sends it to the process that it has started."""
    launch.start_others((1, 1))
    process = launch.start(1, 1, ["bash", "-c", "trap 'echo saved; exit 5' TERM; echo ready; sleep 60 & wait"])
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_SECONDS) == 5
    assert process.stdout.readline() == "saved\n"


def test_signals_that_python_ignores_are_not_ignored_in_the_command(launch):
    """`head` ends the program that writes to it, as without this script."""
    launch.start_others((1, 1))
    process = launch.start(1, 1, ["bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"])
    assert ended(process) == (0, ["y", str(128 + signal.SIGPIPE)], "")


def test_a_task_that_waits_ends_when_it_is_told_to(launch):
    """Also where it is the first process of a container, which needs a handler for it."""
    process = launch.start(0, 0)
    until(lambda: launch.iris.calls["ListEndpoints"] > 0)
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (128 + signal.SIGTERM, [], "")


def test_a_program_that_is_not_there_is_named(launch):
    """With the exit code of a shell."""
    launch.start_others((1, 1))
    code, _, err = ended(launch.start(1, 1, ["no-such-program", "-x"]))
    assert (code, err) == (127, "FileNotFoundError: no-such-program: No such file or directory\n")


def test_python_means_what_it_means_without_the_script(launch):
    """On a single machine Iris puts its own interpreter for a command's first word; elsewhere the PATH decides."""
    launch.start_others((1, 0), (1, 1))
    own = launch.start(1, 0, ["python", "-c", "import sys; print(sys.executable)"])
    (launch.folder / "bin").mkdir()
    fake = launch.folder / "bin" / "python"
    fake.write_text(f'#!/bin/sh\n[ "$1" = -I ] && exec {sys.executable} "$@"\necho the image\n')
    fake.chmod(0o755)
    path = f"{launch.folder / 'bin'}:{os.environ['PATH']}"
    image = launch.start(1, 1, ["python", "-c", ""], env={"PATH": path, "IRIS_PYTHON": "python"})
    assert ended(own)[1][-1] == sys.executable
    assert ended(image)[1][-1] == "the image"


def test_modules_of_the_author_do_not_get_into_the_script(launch, tmp_path):
    """A PYTHONPATH with a random.py in it is for the command."""
    (tmp_path / "random.py").write_text("raise SystemExit('not this one')")
    launch.start_others(env={"PYTHONPATH": str(tmp_path)})
    for process in launch.processes.values():
        assert told(process)["PYTHONPATH"] == str(tmp_path)


def test_an_entry_is_renewed_as_long_as_a_task_waits(launch, monkeypatch):
    """A slice may wait longer than Iris keeps an address."""
    monkeypatch.setattr(rendezvous, "RENEW_SECONDS", 0)
    monkeypatch.setattr(rendezvous, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(rendezvous, "LONGEST_PAUSE_SECONDS", 0.01)
    environ = {
        "IRIS_TASK_ID": f"{JOBS[1]}/0:0",
        "IRIS_ADVERTISE_HOST": "127.0.0.1",
        "IRIS_CONTROLLER_URL": launch.iris.url,
        LAUNCH_ENV: "place.life",
        "FRAY_AIRFLOW_SLICE_INDEX": "1",
        "FRAY_AIRFLOW_SLICE_JOBS": ",".join(JOBS),
    }
    with pytest.raises(rendezvous.RendezvousError, match="have not met"):
        rendezvous.meet(rendezvous.Place(environ, {"tasks": TASKS, "seconds": 2}))
    assert launch.iris.calls["RegisterEndpoint"] > 2


@pytest.mark.parametrize("name", ["push_result.py", "rendezvous.py", "run_callable.py"])
def test_shipped_scripts_are_python_3_8(name):
    """The image of a job may be older than Airflow."""
    text = resources.files("fray_airflow.iris.shipped").joinpath(name).read_text()
    ast.parse(text, feature_version=(3, 8))


def test_a_command_without_a_rendezvous_is_started_by_iris_itself():
    """Nothing is shipped for it."""
    runtime = convert_entrypoint(Entrypoint.from_binary("train", ["-x"]))
    assert list(runtime.run_command.argv) == ["train", "-x"]
    assert not runtime.workdir_files
