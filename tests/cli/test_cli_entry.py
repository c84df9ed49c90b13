"""The entry point: what it costs, how it fails, what reaches a pipe."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

SCRIPT = str(Path(sysconfig.get_path("scripts"), "fray-airflow"))
MODULE = [sys.executable, "-m", "fray_airflow"]
COMMANDS = ("explain", "jobs", "logs", "cancel", "doctor", "demo", "iris")


def finished(*words, **options):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize("program", [[SCRIPT], MODULE])
def test_the_installed_script_and_the_module_are_the_same_command(program):
    ended = finished(*program, "explain", "--tpu", "v5p-16")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "1 slice x 2 VMs x 4 chips (TPU v5p-16)" in ended.stdout
    assert "\x1b" not in ended.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(command, name):
    ended = command(name, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"usage: fray-airflow {name}")


def test_help_loads_neither_airflow_nor_an_rpc_library():
    """So that it comes at once."""
    loaded = (
        "import sys; from fray_airflow.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('airflow', 'grpc', 'google.protobuf', 'httpx', 'rich', 'yaml')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    ended = finished(sys.executable, "-c", loaded)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "[]"


def test_a_target_or_a_spec_needs_no_airflow(iris):
    """Only a connection id or a DAG file does."""
    for words in (["jobs", "--target", iris.target], ["explain", "--tpu", "v5p-8", "--target", iris.target]):
        code = f"import sys; from fray_airflow.cli import main; main({words!r}); print('airflow' in sys.modules)"
        ended = finished(sys.executable, "-c", code)
        assert ended.stdout.splitlines()[-1] == "False", ended.stderr


@pytest.mark.parametrize("words", [["jobs"], ["logs", "/a/j"], ["cancel", "--yes", "/a/j"], ["explain", "--cpu", "1"]])
def test_an_iris_that_is_not_there_is_one_message_and_exit_code_3(command, words):
    ended = command(*words, "--target", "127.0.0.1:1")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("fray-airflow: Iris at 127.0.0.1:1 did not answer")
    assert ended.err.count("\n") == 1
    assert "Check that the controller runs" in ended.err


def test_the_output_of_a_dag_file_is_not_the_commands(tmp_path):
    """Airflow's log and what the file prints go to stderr; JSON stays JSON. Airflow itself is quiet."""
    text = "print('loud')\nfrom airflow.sdk import DAG\nfrom fray_airflow.operators import IrisSubmitJobOperator\n"
    text += "with DAG('d', schedule=None):\n    IrisSubmitJobOperator(task_id='t', command='true')\n"
    (tmp_path / "dag.py").write_text(text)
    ended = finished(*MODULE, "explain", str(tmp_path / "dag.py"), "t", "--json")
    assert json.loads(ended.stdout)["runs"] == "true"
    assert ended.stderr == "loud\n"


def test_a_connection_that_is_not_there_is_misuse(command):
    ended = command("jobs", "--conn", "nowhere")
    assert (ended.code, ended.out) == (2, "")
    assert "Airflow has no connection 'nowhere'" in ended.err
    assert "AIRFLOW_CONN_NOWHERE" in ended.err


def test_a_connection_of_airflow_is_used(command, iris, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_MINE", json.dumps({"conn_type": "iris", "host": iris.url}))
    assert command("jobs", "--conn", "mine", "--json").code == 0


def test_an_address_that_cannot_be_right_is_misuse(command):
    ended = command("jobs", "--target", "ftp://host")
    assert ended.code == 2
    assert "use grpc, grpcs, http, https or none" in ended.err


def test_options_that_a_connection_has_itself_are_refused_beside_it(command):
    ended = command("jobs", "--as-user", "me")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "--as-user: only with --target" in ended.err


def test_a_reader_that_leaves_is_no_error(iris, client, tmp_path):
    """`fray-airflow explain ... | head -1`."""
    ended = finished("bash", "-c", f"'{SCRIPT}' explain --tpu v5p-16 | head -1; echo ${{PIPESTATUS[0]}}")
    assert ended.stdout.splitlines() == ["job           /airflow/job", "0"]
    assert ended.stderr == ""


def test_an_interrupt_ends_without_a_traceback(iris, client):
    """Ctrl-C while a job is followed; the job goes on."""
    from fray_airflow import Entrypoint, JobRequest
    from fray_airflow.local import Outcome

    iris.script("endless", Outcome.hang())
    job = client.submit(JobRequest(name="endless", entrypoint=Entrypoint.from_binary("true")))
    calls = iris.calls["FetchLogs"]
    process = subprocess.Popen(
        [*MODULE, "logs", job.job_id, "--follow", "--target", iris.target],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 30
    while iris.calls["FetchLogs"] == calls and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "\n")
    assert not job.state().finished
    job.terminate()


def test_people_at_a_terminal_get_a_table_with_emphasis(iris):
    """The same command in a pipe has none: see test_cli_jobs."""
    reader, writer = os.openpty()
    words = [*MODULE, "doctor", "--target", iris.target]
    ended = subprocess.run(words, stdout=writer, timeout=60, check=False, env={**os.environ, "TERM": "xterm"})
    os.close(writer)
    shown = os.read(reader, 10_000).decode()
    os.close(reader)
    assert ended.returncode == 0
    assert "\x1b[1mstep" in shown
    assert "name resolves" in shown


def test_the_environment_holds_the_token_and_no_message_shows_it(command, monkeypatch):
    from fray_airflow.local import LocalIris

    with LocalIris(token="right") as guarded:
        monkeypatch.setenv("FRAY_AIRFLOW_TOKEN", "hush-hush")
        refused = command("jobs", "--target", guarded.target)
        monkeypatch.setenv("FRAY_AIRFLOW_TOKEN", "right")
        taken = command("jobs", "--target", guarded.target)
    assert (refused.code, taken.code) == (3, 0)
    assert "Check the token" in refused.err
    assert "hush" not in refused.err + refused.out
    assert os.environ["FRAY_AIRFLOW_TOKEN"] == "right"
