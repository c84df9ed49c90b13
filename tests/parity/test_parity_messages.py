"""Our messages are those of marin-iris, and both live in one process."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fray_airflow.iris._gen import controller_pb2, errors_pb2, job_pb2, logging_pb2, time_pb2, vm_pb2

REASON = "marin-iris and marin-finelog are not installed: uv sync --group iris"
pytestmark = pytest.mark.parity

THEIRS = {
    "controller_pb2": "iris.rpc.controller_pb2",
    "errors_pb2": "iris.rpc.errors_pb2",
    "job_pb2": "iris.rpc.job_pb2",
    "logging_pb2": "finelog.rpc.logging_pb2",
    "time_pb2": "iris.rpc.time_pb2",
    "vm_pb2": "iris.rpc.vm_pb2",
}
ROOT = Path(__file__).parent.parent.parent


def messages(holder: Any) -> list[Any]:
    """Every message below a file or a message."""
    nested = getattr(holder, "message_types_by_name", None) or getattr(holder, "nested_types_by_name", {})
    return [each for message in nested.values() for each in (message, *messages(message))]


def enums(holder: Any) -> list[Any]:
    return [*holder.enum_types_by_name.values(), *(e for m in messages(holder) for e in m.enum_types_by_name.values())]


def features(field: Any) -> dict[str, object]:
    """What the wire and the generated class see of a field."""
    return {
        "number": field.number,
        "type": field.type,
        "repeated": field.is_repeated,
        "presence": field.has_presence,
        "packed": field.is_packed,
        "oneof": field.containing_oneof and field.containing_oneof.name,
        "message": field.message_type and field.message_type.full_name,
        "map": bool(field.message_type and field.message_type.GetOptions().map_entry),
        "enum": field.enum_type and field.enum_type.full_name,
    }


OURS = [controller_pb2, errors_pb2, job_pb2, logging_pb2, time_pb2, vm_pb2]
PAIRS = [(module, each.full_name) for module in OURS for each in messages(module.DESCRIPTOR)]
ENUM_PAIRS = [(module, each.full_name) for module in OURS for each in enums(module.DESCRIPTOR)]


def pool_of_iris() -> Any:
    for name in THEIRS.values():
        pytest.importorskip(name, reason=REASON)
    return importlib.import_module("google.protobuf.descriptor_pool").Default()


@pytest.mark.parametrize(("module", "name"), PAIRS, ids=[name for _, name in PAIRS])
def test_a_message_has_the_fields_that_iris_gives_it(module, name):
    theirs = pool_of_iris().FindMessageTypeByName(name).fields_by_name
    (ours,) = [each.fields_by_name for each in messages(module.DESCRIPTOR) if each.full_name == name]
    assert {key: features(field) for key, field in ours.items()} == {key: features(theirs[key]) for key in ours}
    assert set(ours) == set(theirs)


@pytest.mark.parametrize(("module", "name"), ENUM_PAIRS, ids=[name for _, name in ENUM_PAIRS])
def test_an_enum_has_the_numbers_that_iris_gives_it(module, name):
    theirs = pool_of_iris().FindEnumTypeByName(name)
    (ours,) = [each for each in enums(module.DESCRIPTOR) if each.full_name == name]
    assert {each.name: each.number for each in ours.values} == {each.name: each.number for each in theirs.values}
    assert ours.is_closed == theirs.is_closed


def test_the_states_of_the_spec_are_the_numbers_of_the_wire():
    from fray_airflow import states

    for enum, prefix in ((states.JobState, "JOB_STATE_"), (states.TaskState, "TASK_STATE_")):
        wire = getattr(job_pb2, enum.__name__)
        assert {f"{prefix}{each.name}": int(each) for each in enum} == dict(wire.items())
    assert {f"PRIORITY_BAND_{each.name}": int(each) for each in states.PriorityBand} == dict(
        job_pb2.PriorityBand.items()
    )


def run(python: str, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([python, *options, "-c", code], env=env, cwd="/", text=True, capture_output=True, check=False)


USE = """
from fray_airflow.iris import build_launch_request
from fray_airflow import JobRequest, Entrypoint, ResourceConfig
job = JobRequest(name="x", entrypoint=Entrypoint.from_binary("true"), resources=ResourceConfig.with_tpu("v5p-16"))
request = build_launch_request(job)
assert type(request).FromString(request.SerializeToString()) == request
"""
IRIS = "\n".join(f"import {name}" for name in THEIRS.values())
COMPARE = """
from iris.rpc import controller_pb2
other = controller_pb2.Controller.LaunchJobRequest.FromString(request.SerializeToString())
assert other.name == "/airflow/x", other
assert other.SerializeToString(deterministic=True) == request.SerializeToString(deterministic=True)
"""


@pytest.mark.parametrize("order", ["fray_airflow first", "marin-iris first"])
def test_both_packages_are_imported_in_either_order_without_a_warning(order):
    pool_of_iris()
    parts = [USE, IRIS] if order == "fray_airflow first" else [IRIS, USE]
    done = run(sys.executable, "\n".join([*parts, COMPARE]), "-W", "error")
    assert (done.returncode, done.stderr) == (0, "")


OTHER_PYTHONS = [path for path in os.environ.get("FRAY_AIRFLOW_OTHER_PYTHONS", "").split(os.pathsep) if path]


@pytest.mark.skipif(not OTHER_PYTHONS, reason="FRAY_AIRFLOW_OTHER_PYTHONS names no environments with other protobufs")
@pytest.mark.parametrize("python", OTHER_PYTHONS)
def test_the_messages_work_on_another_protobuf(python):
    done = run(python, USE + "\nimport google.protobuf; print(google.protobuf.__version__)", "-W", "error")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_messages_work_on_protobufs_slow_python_implementation():
    env = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    code = f"import os; os.environ.update({env})\n{USE}"
    done = run(sys.executable, code, "-W", "error")
    assert (done.returncode, done.stderr) == (0, "")
