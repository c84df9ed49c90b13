"""What a task finds: variables, files, interpreter, folders."""

from __future__ import annotations

import io
import json
import re
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from casebook import case
from iris_under_test import SMALL, Iris

from fray_airflow import Entrypoint, EnvironmentConfig, JobRequest, ResourceConfig
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris import build_launch_request, calls
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris.submission import prepare

REPORT = "import json, os; print(json.dumps({**os.environ, 'CWD': os.getcwd()}))"
SHIP = ResourceConfig.with_cpu(cpu=0.1, ram="16m", disk="1m")


def _environment(iris: Iris, **fields: Any) -> dict[str, str]:
    """What a task of a job with these fields finds."""
    job_id = iris.launch(argv=("python", "-c", REPORT), **fields)
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED, iris.task(job_id).error
    return json.loads(iris.printed(job_id)[0])


def _zip(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_py", ".py"), text)
    return buffer.getvalue()


@case
def task_variables(iris: Iris) -> None:
    """A task knows its id with the attempt, the number of tasks, its worker and the controller."""
    found = _environment(iris)
    assert found["IRIS_TASK_ID"] == f"/{iris.user}/job/0:0"
    assert found["IRIS_NUM_TASKS"] == "1"
    task = iris.task(f"/{iris.user}/job")
    assert found["IRIS_WORKER_ID"] == task.worker_id
    assert found["IRIS_ATTEMPT_UID"] == task.attempts[0].attempt_uid
    assert found["IRIS_CONTROLLER_URL"].startswith("http://127.0.0.1:")
    assert json.loads(found["IRIS_JOB_SETUP_SCRIPTS"]) == []
    assert isinstance(json.loads(found["IRIS_TASK_RESOURCES"]), dict)
    for name in ("IRIS_WORKDIR", "IRIS_OUTPUT_DIR", "IRIS_PYTHON", "IRIS_ADVERTISE_HOST"):
        assert found[name], name
    for name in ("IRIS_JOB_ID", "IRIS_JOB_ENV", "IRIS_JOB_CONSTRAINTS", "IRIS_SLICE_COUNT"):
        assert name not in found


@case
def bind_host(iris: Iris) -> None:
    """A task is told to listen on all interfaces, so that tasks on other machines reach it."""
    assert _environment(iris)["IRIS_BIND_HOST"] == "0.0.0.0"  # noqa: S104 - what Iris says


@case
def user_variables(iris: Iris) -> None:
    """The submitter's variables arrive, and win over Iris's own. What was shown redacted arrives as it was sent."""
    own = {"PLAIN": "a b\nc", "EMPTY": "", "IRIS_NUM_TASKS": "seven", "HF_TOKEN": "the token", LAUNCH_ENV: "t"}
    found = _environment(iris, environment={"env_vars": own})
    assert {name: found[name] for name in own} == own
    assert json.loads(found["IRIS_JOB_ENV"])["PLAIN"] == own["PLAIN"]


@case
def replicas_know_their_index(iris: Iris) -> None:
    """Each replica finds its index in its task id, before the attempt."""
    job_id = iris.launch(argv=("sh", "-c", 'echo "$IRIS_TASK_ID of $IRIS_NUM_TASKS"'), replicas=3)
    # Of an attempt that another case's job took the machine from there is nothing to see.
    printed = [re.fullmatch(r"(.*):\d+ of 3", line) for line in iris.printed(job_id, 3)]
    assert [found and found[1] for found in printed] == [f"{job_id}/{index}" for index in range(3)]


@case
def ports(iris: Iris) -> None:
    """A named port is a number in a variable; the status does not tell it."""
    found = _environment(iris, ports=["jax", "grpc-x"])
    assert {found["IRIS_PORT_JAX"], found["IRIS_PORT_GRPC-X"]} <= {str(port) for port in range(1024, 65536)}
    assert found["IRIS_PORT_JAX"] != found["IRIS_PORT_GRPC-X"]
    assert dict(iris.task(f"/{iris.user}/job").ports) == {}


@case
def no_shell(iris: Iris) -> None:
    """A command is run without a shell."""
    assert iris.printed(iris.launch(argv=("echo", "$HOME", "*", ";", "&&"))) == ["$HOME * ; &&"]


@case
def setup_commands_are_for_containers(iris: Iris) -> None:
    """Without containers, set-up commands are not run."""
    entrypoint = {"run_command": {"argv": ["echo", "ran"]}, "setup_commands": ["exit 1"]}
    assert iris.printed(iris.launch(entrypoint=entrypoint)) == ["ran"]


@case
def workdir(iris: Iris) -> None:
    """Bundle and files lie in IRIS_WORKDIR, files above bundle members, and it is not the working folder."""
    files = {"b.txt": b"file", "deep/er/c.txt": b"c", "large.bin": b"x" * 20_000}
    script = 'cd "$IRIS_WORKDIR"; cat a.txt b.txt deep/er/c.txt; wc -c < large.bin | tr -d " "'
    job_id = iris.launch(
        entrypoint={"run_command": {"argv": ["sh", "-c", script]}, "workdir_files": files},
        bundle_blob=_zip(**{"a.txt": "bundle\n", "b.txt": "bundle\n"}),
    )
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED, iris.task(job_id).error
    assert [line.data for line in iris.lines(job_id, 2)] == ["bundle", "filec20000"]
    found = _environment(iris, name="where")
    assert found["CWD"] != found["IRIS_WORKDIR"]


@case
def bundle_id_is_given_to_the_task(iris: Iris) -> None:
    """A task knows the hash of its bundle, and a later job may name a bundle instead of sending it."""
    job_id = iris.launch("first", bundle_blob=_zip(**{"a.txt": "from the first job\n"}))
    bundle_id = iris.echo(job_id).bundle_id
    script = 'cat "$IRIS_WORKDIR/a.txt"; echo "$IRIS_BUNDLE_ID"'
    again = iris.launch("second", ("sh", "-c", script), bundle_id=bundle_id)
    assert [line.data for line in iris.lines(again, 2)] == ["from the first job", bundle_id]


@case
def executable_bit_is_lost(iris: Iris) -> None:
    """Members of a bundle are not executable, whatever the zip says."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("run.sh")
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, "echo ran\n")
    script = 'test -x "$IRIS_WORKDIR/run.sh" && echo yes || echo no; sh "$IRIS_WORKDIR/run.sh"'
    job_id = iris.launch(argv=("sh", "-c", script), bundle_blob=buffer.getvalue())
    assert [line.data for line in iris.lines(job_id, 2)] == ["no", "ran"]


@case
def app_paths(iris: Iris) -> None:
    """A word of the command, or a variable, that is /app or below it means the work folder."""
    bundle = _zip(
        main_py="import os, pkg; print(pkg.NAME, os.environ['MIXED'], os.environ['BELOW'])", pkg_py="NAME='pkg'"
    )
    variables = {"PYTHONPATH": "/app", "MIXED": "a:/app", "BELOW": "/app/x"}
    job_id = iris.launch(argv=("python", "/app/main.py"), bundle_blob=bundle, environment={"env_vars": variables})
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED, iris.task(job_id).error
    name, mixed, below = iris.printed(job_id)[0].split()
    assert (name, mixed) == ("pkg", "a:/app")
    assert below.endswith("/x")
    assert below != "/app/x"


@case
def bundle_is_not_on_the_path(iris: Iris) -> None:
    """Modules of a bundle cannot be imported unless the path is set."""
    job_id = iris.launch(argv=("python", "-c", "import only_in_bundle"), bundle_blob=_zip(only_in_bundle_py=""))
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED
    assert "only_in_bundle" in iris.task(job_id).error


@case
def output_folder(iris: Iris) -> None:
    """A task has a folder for its output, in which it may write."""
    job_id = iris.launch(argv=("sh", "-c", 'echo x > "$IRIS_OUTPUT_DIR/out.txt" && echo written'))
    assert iris.printed(job_id) == ["written"]


def _job(name: str, entrypoint: Entrypoint, **fields: Any) -> JobRequest:
    return JobRequest(name=name, entrypoint=entrypoint, resources=SHIP, **fields)


def _greet(whom: str, *, times: int) -> None:
    print(f"hello {whom} " * times)


@case
def callable_entrypoint(iris: Iris) -> None:
    """A Python function runs on the cluster with its arguments."""
    job = _job("function", Entrypoint.from_callable(_greet, ("slice",), {"times": 2}))
    job_id = iris.client.launch(prepare(job, user=iris.user))
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED, iris.task(job_id).error
    assert iris.printed(job_id) == ["hello slice hello slice"]


def _fail() -> None:
    raise ValueError("no such data set")


@case
def callable_that_raises(iris: Iris) -> None:
    """A function that raises fails its task, and the exception is the task's error."""
    job_id = iris.client.launch(prepare(_job("function", Entrypoint.from_callable(_fail)), user=iris.user))
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED
    task = iris.task(job_id)
    assert task.exit_code == 1
    assert "ValueError: no such data set" in task.error


@case
def workspace(iris: Iris) -> None:
    """A workspace and single files are shipped with a job."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "code" / "package").mkdir(parents=True)
        (base / "code" / "package" / "__init__.py").write_text("WORD = 'shipped'\n")
        (base / "code" / "train.py").write_text("import package; print(package.WORD, open('/app/conf.txt').read())\n")
        (base / "settings.txt").write_text("with settings")
        environment = EnvironmentConfig(workspace="code", files={"conf.txt": "settings.txt"})
        command = Entrypoint.from_binary(
            "sh", ["-c", 'cd "$IRIS_WORKDIR" && sed -i s,/app/,, train.py && python3 train.py']
        )
        request = prepare(_job("job", command, environment=environment), user=iris.user, base=base)
    job_id = iris.client.launch(request)
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED, iris.task(job_id).error
    assert iris.printed(job_id) == ["shipped with settings"]


@case
def launch_proves_itself(iris: Iris) -> None:
    """A request that is sent again is told apart from another's by the echo of its token."""
    job = _job("job", Entrypoint.from_binary("sleep", ["300"]))
    request = prepare(job, user=iris.user)
    job_id = iris.client.launch(request)
    assert iris.client.job_status(job_id).request_env[LAUNCH_ENV] == request.environment.env_vars[LAUNCH_ENV]
    assert iris.client.launch(request) == job_id
    refusal = iris.refused(calls.LAUNCH_JOB, **iris.request("job", existing_job_policy=1, resources=SMALL))
    assert refusal.code == "already_exists"
    iris.terminate(job_id)


@case
def request_of_this_package(iris: Iris) -> None:
    """What this package asks for is what the controller keeps."""
    job = _job("job", Entrypoint.from_binary("true"), replicas=2, max_task_failures=1, ports=("jax",), timeout=3600)
    request = build_launch_request(job, user=iris.user)
    echo = iris.echo(iris.client.launch(request))
    for name in ("name", "replicas", "max_task_failures", "max_retries_preemption", "timeout", "ports", "entrypoint"):
        assert getattr(echo, name) == getattr(request, name), name
    assert echo.resources.cpu_millicores == request.resources.cpu_millicores
    assert echo.environment.env_vars == request.environment.env_vars
