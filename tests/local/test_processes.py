"""Tasks as real processes: environment, files, output, ends. One embedded Iris serves all tests of this file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile

import pytest

from fray_airflow.iris._gen import job_pb2, time_pb2
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.local.timing import Timing

PATIENCE_SECONDS = 20
POLL_SECONDS = 0.01


@pytest.fixture(scope="module")
def served():
    os.environ["LEAK_ME"] = "not"
    timing = Timing(log_delay_seconds=0, drain_seconds=0.1, kill_grace_seconds=0.1, sweep_seconds=0.1)
    with LocalIris(Fleet.of(cpu=2, tpu={"v5p-16": 2}), timing=timing) as iris:
        yield iris
    del os.environ["LEAK_ME"]


@pytest.fixture
def real(served, make_iris):
    """The driver's questions, put to a cluster that ticks by itself in real time."""
    driver = make_iris.__new__(make_iris)
    driver.cluster, driver.metadata = served.cluster, {}
    driver.until = lambda done, seconds=PATIENCE_SECONDS: wait(done)
    return driver


def wait(done):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(POLL_SECONDS)


def run(real, request, *argv, env=None, files=None):
    """Launch, wait for the end; state, lines, error of the first task."""
    request.entrypoint.run_command.argv[:] = argv
    request.environment.env_vars.update(env or {})
    request.entrypoint.workdir_files.update(files or {})
    request.existing_job_policy = job_pb2.EXISTING_JOB_POLICY_RECREATE
    job_id = real.launch(request)
    state = real.until_ended(job_id)
    since = real.status(job_id).submitted_at.epoch_ms - 1
    return state, real.lines(f"{job_id}/", since_ms=since), real.tasks(job_id)[0]


def environment_of(real, request, **given):
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    _, lines, _ = run(real, request, "python", "-c", code, **given)
    return json.loads(lines[0])


def test_a_task_sees_what_iris_injects(real, served, job):
    env = environment_of(real, job("/a/env", ports=["http", "grpc-x"]), env={"OWN": "x"})
    assert env["IRIS_TASK_ID"] == "/a/env/0:0"
    assert env["IRIS_NUM_TASKS"] == "1"
    assert env["IRIS_CONTROLLER_URL"] == env["IRIS_CONTROLLER_ADDRESS"] == served.url
    # Not the 0.0.0.0 of Iris: what a task serves here stays on this machine.
    assert env["IRIS_BIND_HOST"] == env["IRIS_ADVERTISE_HOST"] == "127.0.0.1"
    assert env["IRIS_PYTHON"] == sys.executable
    assert env["IRIS_WORKER_ID"].startswith("worker-iris-cpu-")
    assert env["IRIS_JOB_ENV"] == '{"OWN": "x"}'
    assert env["IRIS_PORT_HTTP"] != env["IRIS_PORT_GRPC-X"]
    assert env["IRIS_WORKER_REGION"] == "local"
    assert not {"IRIS_SLICE_COUNT", "PJRT_DEVICE", "IRIS_JOB_ID"} & set(env)


def test_the_servers_environment_does_not_leak(real, job):
    env = environment_of(real, job("/a/env"))
    assert "LEAK_ME" not in env
    assert env["PATH"] == os.environ["PATH"]


def test_the_authors_values_win(real, job):
    env = environment_of(real, job("/a/env"), env={"IRIS_NUM_TASKS": "99", "PATH": os.environ["PATH"]})
    assert env["IRIS_NUM_TASKS"] == "99"


def test_a_tpu_task_is_told_about_its_device_and_slices(real, job):
    request = job("/a/tpu", tpu="v5p-16", replicas=4)
    env = environment_of(real, request)
    assert (env["JAX_PLATFORMS"], env["PJRT_DEVICE"], env["JAX_FORCE_TPU_INIT"]) == ("tpu,cpu", "TPU", "1")
    assert (env["IRIS_SLICE_COUNT"], env["IRIS_TASKS_PER_SLICE"], env["IRIS_NUM_TASKS"]) == ("2", "2", "4")


def test_tasks_that_do_not_fill_slices_fail(real, job):
    state, _, task = run(real, job("/a/odd", tpu="v5p-16", replicas=3), "true")
    assert state == "FAILED"
    assert "TPU task count (3) must be divisible by TPU VM count (2) for variant 'v5p-16'" in task.error


def test_argv_is_executed_without_a_shell(real, job):
    assert run(real, job("/a/sh"), "echo", "$HOME", "a  b")[1] == ["$HOME a  b"]


def test_setup_commands_are_skipped(real, job):
    """Only container runtimes run them."""
    request = job("/a/setup")
    request.entrypoint.setup_commands.append("exit 1")
    assert run(real, request, "true")[0] == "SUCCEEDED"


def test_python_is_the_servers_own_interpreter(real, job):
    lines = run(real, job("/a/py"), "python3", "-c", "import sys; print(sys.executable)")[1]
    assert lines == [sys.executable]


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["no-such-program"], "FileNotFoundError: "),
        ([], "IndexError: list index out of range"),
    ],
)
def test_what_cannot_be_started_fails_with_exit_code_1(real, job, argv, error):
    state, _, task = run(real, job("/a/bad"), *argv)
    assert (state, task.exit_code) == ("FAILED", 1)
    assert task.error.startswith(error)


def test_exit_code_and_last_line_of_stderr_make_the_error(real, job):
    _, lines, task = run(real, job("/a/x3"), "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (task.exit_code, task.error) == (3, "Exit code: 3. stderr: err")
    assert sorted(lines) == ["err", "out"]


def test_a_death_by_signal_is_a_negative_code(real, job):
    task = run(real, job("/a/sig"), "sh", "-c", "kill -9 $$")[2]
    assert (task.exit_code, task.error) == (-9, "Exit code: -9")


def test_137_is_taken_for_a_kill(real, job):
    task = run(real, job("/a/oom"), "sh", "-c", "exit 137")[2]
    assert task.error == "Exit code 137: killed by SIGKILL (possibly OOM or resource limit)"


def test_output_that_is_not_utf8_fails_the_task(real, job):
    state, _, task = run(real, job("/a/latin"), "sh", "-c", r"printf '\377\n'; sleep 60")
    assert (state, task.exit_code) == ("FAILED", 1)
    assert task.error.startswith("UnicodeDecodeError: ")


def bundle(**members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_py", ".py"), content)
    return packed.getvalue()


def test_files_land_in_the_workdir_on_top_of_the_bundle(real, job):
    request = job("/a/files", bundle_blob=bundle(a_py="print('bundle')", pkg__b_py="print('b')"))
    files = {"a.py": b"print('file')", "deep/er.txt": b"x" * 20_000}
    _, lines, _ = run(
        real, request, "sh", "-c", "cd $IRIS_WORKDIR; cat a.py pkg/b.py; echo; wc -c < deep/er.txt", files=files
    )
    assert lines == ["print('file')print('b')", "20000"]


def test_the_folder_is_the_servers_and_app_stands_for_the_workdir(real, job):
    """PYTHONPATH=/app finds the bundle, the current folder does not."""
    code = "import os, mod; print(os.getcwd()); print(mod.__file__ == os.environ['IRIS_WORKDIR'] + '/mod.py')"
    files = {"mod.py": b"", "main.py": code.encode()}
    _, lines, _ = run(real, job("/a/app"), "python", "-c", code, env={"PYTHONPATH": "/app"}, files=files)
    assert lines == [os.getcwd(), "True"]
    _, lines, _ = run(real, job("/a/app"), "python", "/app/main.py", env={"PYTHONPATH": "lib:/app"}, files=files)
    assert lines == [os.getcwd(), "True"]
    assert run(real, job("/a/app"), "python", "-c", code, files=files)[0] == "FAILED"


def test_the_workdir_is_gone_afterwards(real, job):
    _, lines, _ = run(real, job("/a/wd"), "sh", "-c", "echo $IRIS_WORKDIR")
    assert not os.path.exists(lines[0])


@pytest.mark.parametrize("name", ["/etc/x", "../x", ""])
def test_a_bad_file_name_fails_at_run_time(real, job, name):
    state, _, task = run(real, job("/a/badfile"), "true", files={name: b"x"})
    assert state == "FAILED"
    assert task.error.startswith("ValueError: Invalid workdir file path")


def test_a_bad_bundle_fails_at_run_time(real, job):
    assert "BadZipFile" in run(real, job("/a/zip", bundle_blob=b"no zip"), "true")[2].error
    assert run(real, job("/a/zip", bundle_id="gone"), "true")[2].error == (
        "RuntimeError: Failed to fetch gone: HTTP Error 404: Not Found"
    )


def alive(pid):
    """A zombie that nobody has waited for yet is dead."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1] not in ("", "Z")


def start_and_read_pid(real, request, script):
    """The pid that the shell script prints first."""
    request.entrypoint.run_command.argv[:] = ["sh", "-c", script]
    job_id = real.launch(request)
    wait(lambda: real.lines(f"{job_id}/"))
    return job_id, int(real.lines(f"{job_id}/")[0])


def test_a_kill_reaches_what_the_task_started_and_ignores_deafness(real, job):
    """The whole group gets SIGTERM, then SIGKILL."""
    script = "trap '' TERM; sleep 307 & echo $!; wait; wait"
    job_id, child = start_and_read_pid(real, job("/a/deaf"), script)
    assert alive(child)
    real.terminate(job_id)
    assert real.state(job_id) == "KILLED"
    wait(lambda: real.tasks(job_id)[0].attempts[0].HasField("finished_at"))
    wait(lambda: not alive(child))


def test_a_timeout_ends_the_process(real, job):
    request = job("/a/slow", timeout=time_pb2.Duration(milliseconds=300))
    job_id, child = start_and_read_pid(real, request, "echo $$; exec sleep 307")
    assert real.until_ended(job_id) == "FAILED"
    assert real.status(job_id).error.endswith("Execution timeout exceeded")
    wait(lambda: not alive(child))


def test_a_task_left_behind_does_not_hold_the_end_up(real, job):
    """A background process that keeps the pipe open dies with its task."""
    state, lines, _ = run(real, job("/a/bg"), "sh", "-c", "sleep 307 & echo done")
    assert (state, lines) == ("SUCCEEDED", ["done"])


def test_stopping_ends_every_process(make_iris, job):
    with LocalIris(Fleet.of(cpu=1), timing=Timing(log_delay_seconds=0)) as iris:
        driver = make_iris.__new__(make_iris)
        driver.cluster, driver.metadata = iris.cluster, {}
        _, child = start_and_read_pid(driver, job(), "echo $$; exec sleep 307")
    assert not alive(child)


def test_a_task_reaches_the_controller_with_plain_http(real, job):
    """IRIS_CONTROLLER_URL answers Connect, so that urllib is enough to push a result."""
    code = (
        "import json, os, urllib.request as r\n"
        "url = os.environ['IRIS_CONTROLLER_URL'] + '/proxy/system.log-server/finelog.logging.LogService/PushLogs'\n"
        "body = json.dumps({'key': 'results' + os.environ['IRIS_TASK_ID'], 'entries': [{'data': '42'}]}).encode()\n"
        "r.urlopen(r.Request(url, body, {'content-type': 'application/json'}))\n"
    )
    assert run(real, job("/a/push"), "python", "-c", code)[0] == "SUCCEEDED"
    assert real.lines("results/a/push/0:0", "EXACT") == ["42"]


def test_tmp_is_each_attempts_own(real, job):
    """A path below /tmp is another one for every task, so tasks cannot meet there."""
    _, lines, _ = run(real, job("/a/tmp"), "bash", "-c", 'echo "$STORE"', env={"STORE": "/tmp/shared"})
    assert lines[0] != "/tmp/shared"
    assert lines[0].endswith("/tmp/shared")
