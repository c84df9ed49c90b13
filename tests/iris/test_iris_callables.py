"""Functions as jobs: the shipped runner, run as a task runs it."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fray_airflow import Entrypoint
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import convert_entrypoint

MODULE = """
import helper_{name}

GREETING = "hello"

def greet(who, *, times=1):
    for _ in range(times):
        print(GREETING, who, helper_{name}.SIGN)

def fail():
    raise RuntimeError("no luck")

def needs():
    import module_that_nobody_has

def leave():
    import sys
    sys.exit(7)

class Callable:
    def __call__(self, word):
        print("called with", word)
"""


@pytest.fixture
def dag_module(tmp_path, monkeypatch, request):
    """A module as a DAG file is one: importable here, unknown where the job runs."""
    name = f"dag_{abs(hash(request.node.name))}"
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / f"{name}.py").write_text(MODULE.format(name=name))
    (folder / f"helper_{name}.py").write_text('SIGN = "!"\n')
    monkeypatch.syspath_prepend(folder)
    module = importlib.import_module(name)
    yield module
    sys.modules.pop(name)
    sys.modules.pop(f"helper_{name}")


def run(entrypoint: Entrypoint, workdir: Path, **changed: bytes) -> subprocess.CompletedProcess[str]:
    """What a worker does: lays out the files, sets two variables, starts the command somewhere else."""
    runtime = convert_entrypoint(entrypoint)
    for name, content in {**runtime.workdir_files, **changed}.items():
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    env = {"PATH": os.environ["PATH"], "IRIS_WORKDIR": str(workdir), "IRIS_PYTHON": sys.executable}
    return subprocess.run(list(runtime.run_command.argv), env=env, cwd="/", text=True, capture_output=True, check=False)


@pytest.fixture
def workdir(tmp_path, dag_module):
    folder = tmp_path / "work folder"
    folder.mkdir()
    (folder / f"helper_{dag_module.__name__}.py").write_text('SIGN = "?"\n')
    return folder


def test_a_function_of_a_dag_file_runs_where_that_file_is_not(dag_module, workdir):
    done = run(Entrypoint.from_callable(dag_module.greet, ["world"], {"times": 2}), workdir)
    assert (done.returncode, done.stdout) == (0, "hello world ?\nhello world ?\n"), done.stderr


def test_a_lambda_a_closure_and_a_callable_object_run_too(dag_module, workdir):
    word = "captured"
    for function, args, said in (
        (lambda: print(word), [], "captured\n"),
        (print, ["built", "in"], "built in\n"),
        (dag_module.Callable(), ["x"], "called with x\n"),
    ):
        done = run(Entrypoint.from_callable(function, args), workdir)
        assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_an_exception_is_a_traceback_and_exit_code_1(dag_module, workdir):
    done = run(Entrypoint.from_callable(dag_module.fail), workdir)
    assert done.returncode == 1
    assert "RuntimeError: no luck" in done.stderr


def test_an_exit_code_is_the_functions_own(dag_module, workdir):
    assert run(Entrypoint.from_callable(dag_module.leave), workdir).returncode == 7


def test_another_python_is_refused_before_the_pickle_is_touched(dag_module, workdir):
    facts = json.dumps({"python": [3, 7], "function": "greet"}).encode()
    changed = {"_fray/callable.json": facts, "_fray/callable.pkl": b"garbage"}
    done = run(Entrypoint.from_callable(dag_module.greet, ["x"]), workdir, **changed)
    assert done.returncode == 1
    assert "greet was pickled by Python 3.7, but this environment has" in done.stderr
    assert "Use an image or a workspace with Python 3.7" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_is_missing_there_is_named_with_advice(dag_module, workdir):
    (workdir / f"helper_{dag_module.__name__}.py").unlink()
    done = run(Entrypoint.from_callable(dag_module.greet, ["x"]), workdir)
    assert done.returncode == 1
    assert f"greet needs the module 'helper_{dag_module.__name__}', which this environment lacks" in done.stderr
    assert "pip_packages" in done.stderr


def test_the_runner_finds_the_copy_of_cloudpickle_beside_it(dag_module, workdir):
    import cloudpickle

    files = convert_entrypoint(Entrypoint.from_callable(print)).workdir_files
    assert {name.rpartition("/")[0] for name in files} == {"_fray", "_fray/cloudpickle"}
    assert (
        files["_fray/cloudpickle/cloudpickle.py"] == Path(cloudpickle.__file__).with_name("cloudpickle.py").read_bytes()
    )


@pytest.mark.parametrize(
    "argument", [threading.Lock(), sys.stdout, (n for n in ())], ids=lambda value: type(value).__name__
)
def test_what_cannot_be_pickled_is_an_invalid_spec(argument):
    with pytest.raises(InvalidSpecError, match="cannot be pickled"):
        convert_entrypoint(Entrypoint.from_callable(print, [argument]))


def test_pickling_leaves_no_mark_on_the_module(dag_module):
    import cloudpickle

    before = cloudpickle.list_registry_pickle_by_value()
    convert_entrypoint(Entrypoint.from_callable(dag_module.greet))
    with pytest.raises(InvalidSpecError):
        convert_entrypoint(Entrypoint.from_callable(dag_module.greet, [threading.Lock()]))
    assert cloudpickle.list_registry_pickle_by_value() == before
