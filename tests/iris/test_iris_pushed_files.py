"""A command's result: the script that is shipped with its job, called as the author calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fray_airflow import Entrypoint, JobRequest
from fray_airflow.iris import IrisClient, convert_entrypoint
from fray_airflow.iris.submission import prepare
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.results import ResultOptions, read_envelope

JOB_ID = "/me/job"
CALL = 'exec "$IRIS_PYTHON" "$IRIS_WORKDIR/_fray/push_result.py" "$@"'


@pytest.fixture
def iris():
    with LocalIris(Fleet.of(cpu=1), run="script") as iris:
        yield iris


@pytest.fixture
def pushed(iris, tmp_path):
    """`pushed("metrics.json", text='{"a": 1}')` lays out a job's work folder and calls the script in it."""

    def call(*arguments, text="", replica=0, attempt=0, env=(), **options):
        command = ("bash", "-c", CALL, "bash", *arguments)
        runtime = convert_entrypoint(Entrypoint(command=command, result=ResultOptions(**options)))
        for name, content in {**runtime.workdir_files, "metrics.json": text.encode()}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        variables = {
            "PATH": os.environ["PATH"],
            "IRIS_WORKDIR": str(tmp_path),
            "IRIS_PYTHON": sys.executable,
            "IRIS_CONTROLLER_URL": iris.url,
            "IRIS_TASK_ID": f"{JOB_ID}/{replica}:{attempt}",
            **dict(env),
        }
        return subprocess.run(
            list(runtime.run_command.argv),
            env=variables,
            cwd=tmp_path,
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )

    return call


def came(iris, replica=0, attempt=0):
    """The envelope, None if there is none."""
    with IrisClient(iris.url) as client:
        texts = client.result_entries(JOB_ID, replica, attempt)
    return read_envelope(texts[-1]) if texts else None


@pytest.mark.parametrize("source", ["metrics.json", "-"])
def test_a_file_or_standard_input_is_pushed(pushed, iris, source):
    """With nothing on stdout, and an exit code of 0 only after the log service has it."""
    done = pushed(source, text='\ufeff{"loss": 0.5, "name": "ü", "none": null}')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert came(iris) == {"v": 1, "encoding": "json", "value": {"loss": 0.5, "name": "ü", "none": None}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "metrics.json is not JSON (Expecting value"),
        ("loss: 0.5", "metrics.json is not JSON (Expecting value"),
        ('{"loss": NaN}', "metrics.json is not JSON (it holds NaN, which JSON does not have)"),
        ('{"loss": 1e999}', "metrics.json: result['loss'] is inf, which JSON does not have"),
        ("[" * 100_000, "metrics.json is not JSON ("),
        (json.dumps("x" * 200_000), "metrics.json has more than max_result_bytes=150000 bytes"),
    ],
    ids=["empty", "text", "nan", "infinity", "deep", "large"],
)
def test_what_is_no_json_is_said_and_not_pushed(pushed, iris, text, words):
    """Exit code 1, so that `bash -e` and `&&` end the job too."""
    done = pushed("metrics.json", text=text, max_bytes=150_000)
    assert done.returncode == 1
    assert done.stderr.startswith("push_result.py: ")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert iris.calls["PushLogs"] == 0


def test_a_file_that_is_not_there_is_named(pushed, iris):
    """And nothing is pushed."""
    done = pushed("other.json")
    assert done.returncode == 1
    assert "other.json cannot be read" in done.stderr
    assert iris.calls["PushLogs"] == 0


@pytest.mark.parametrize("arguments", [(), ("a", "b"), ("--help",)], ids=str)
def test_a_call_without_one_file_shows_how(pushed, arguments):
    """Exit code 2, as command lines do."""
    done = pushed(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith('usage: python "$IRIS_WORKDIR/_fray/push_result.py" FILE')


def test_a_push_that_is_refused_fails_the_call(pushed, iris):
    """What cannot get better is not tried again."""
    iris.fault("PushLogs", code="permission_denied", message="not you")
    done = pushed("metrics.json", text="1")
    assert done.returncode == 1
    assert "not you" in done.stderr


def test_only_replicas_that_are_asked_need_the_file(pushed, iris):
    """A gang's replicas run the same command, and only one may have written it."""
    assert pushed("other.json", replica=1).returncode == 0
    assert came(iris, replica=1) is None
    assert pushed("other.json", replica=1, senders="all").returncode == 1
    assert pushed("metrics.json", text="5", replica=1, senders="all").returncode == 0
    assert came(iris, replica=1)["value"] == 5


def test_a_job_that_is_not_asked_has_no_script():
    """So a call of it fails, rather than to push what nobody reads."""
    assert not convert_entrypoint(Entrypoint.from_binary("true")).workdir_files


def test_with_a_uri_the_value_is_written_there_and_not_pushed(pushed, iris, tmp_path):
    """As plain JSON, with its folders made, in place of what an earlier attempt wrote, and with no draft left."""
    place = tmp_path / "deep er" / "manual__2026-01-01T00:00:00+00:00.json"
    for text in ("[1, 2]", '{"loss": 0.5}'):
        done = pushed("metrics.json", text=text, env={"FRAY_AIRFLOW_RESULT_URI": f"file://{place}"})
        assert done.returncode == 0, done.stderr
        assert json.loads(place.read_text()) == json.loads(text)
    assert list(place.parent.iterdir()) == [place]
    assert iris.calls["PushLogs"] == 0


def test_one_of_several_slices_jobs_writes_to_a_uri(pushed, tmp_path):
    """Each has a replica 0; the object is one."""
    env = {"FRAY_AIRFLOW_RESULT_URI": f"file://{tmp_path}/out.json"}
    assert pushed("metrics.json", text="1", env={**env, "FRAY_AIRFLOW_SLICE_INDEX": "1"}).returncode == 0
    assert not (tmp_path / "out.json").exists()
    assert pushed("metrics.json", text="0", env={**env, "FRAY_AIRFLOW_SLICE_INDEX": "0"}).returncode == 0
    assert (tmp_path / "out.json").read_text() == "0"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("file:///proc/nowhere/out.json", "file:///proc/nowhere/out.json cannot be written (FileNotFoundError"),
        ("dropbox://bucket/key", "dropbox://bucket/key needs fsspec and its package for this storage"),
    ],
)
def test_a_uri_that_cannot_be_written_fails_the_call(pushed, tmp_path, uri, words):
    """With what is missing. This environment has fsspec, but nothing for dropbox."""
    done = pushed("metrics.json", text="1", env={"FRAY_AIRFLOW_RESULT_URI": uri})
    assert done.returncode == 1
    assert words in done.stderr


def test_other_storage_is_written_with_fsspec(pushed, tmp_path):
    """`local://` stands for those that need a package."""
    done = pushed("metrics.json", text="7", env={"FRAY_AIRFLOW_RESULT_URI": f"local://{tmp_path}/out.json"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.json").read_text() == "7"


def test_a_job_is_told_the_uri_without_airflows_connection():
    """`aws_default@` means nothing there."""
    options = ResultOptions(uri="s3://aws_default@bucket/a@b.json")
    job = JobRequest(name="job", entrypoint=Entrypoint(command=("true",), result=options))
    variables = prepare(job, user="me", base=Path("/")).environment.env_vars
    assert variables["FRAY_AIRFLOW_RESULT_URI"] == "s3://bucket/a@b.json"
