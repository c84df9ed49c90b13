"""The environment and the command of a task's process."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from google.protobuf import json_format

from fray_airflow.iris._gen import job_pb2
from fray_airflow.tpu import TPU_TOPOLOGIES

from .runner import Run

LOOPBACK = "127.0.0.1"
_MOUNTS = {"/app": "workdir", "/tmp": "tmp", "/iris/outputs": "outputs"}
"""What a container would have, and where an attempt's folder has it instead. So /tmp is each attempt's own."""

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER", "LD_LIBRARY_PATH")
_PYTHONS = ("python", "python3")
_TPU_DEFAULTS = {"JAX_PLATFORMS": "tpu,cpu", "PJRT_DEVICE": "TPU", "JAX_FORCE_TPU_INIT": "1"}


def task_environment(run: Run, workdir: Path, url: str) -> dict[str, str]:
    """What the process sees: little of ours, what Iris injects, and on top what the author set.

    Raises ValueError for a TPU job whose tasks do not fill whole slices.
    """
    request = run.job.request
    env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    env |= {
        "IRIS_TASK_ID": run.log_key,
        "IRIS_ATTEMPT_UID": run.uid,
        "IRIS_NUM_TASKS": str(len(run.job.tasks)),
        "IRIS_BUNDLE_ID": request.bundle_id,
        "IRIS_CONTROLLER_ADDRESS": url,
        "IRIS_CONTROLLER_URL": url,
        # Iris says 0.0.0.0. Here all tasks are on this machine, and none shall be reachable from another.
        "IRIS_BIND_HOST": LOOPBACK,
        "IRIS_ADVERTISE_HOST": LOOPBACK,
        "IRIS_WORKDIR": str(workdir),
        "IRIS_OUTPUT_DIR": str(workdir.parent / "outputs"),
        "TMPDIR": str(workdir.parent / "tmp"),
        "IRIS_PYTHON": sys.executable,
        "IRIS_VENV": str(workdir / ".venv"),
        "IRIS_WORKER_ID": run.attempt.worker_id,
        "IRIS_TASK_RESOURCES": json_format.MessageToJson(request.resources),
        "IRIS_JOB_SETUP_SCRIPTS": json.dumps(list(request.environment.setup_scripts)),
    }
    env |= _where_applicable(run)
    own = {name: at_mount(value, workdir) for name, value in run.job.env.items()}
    return env | own


def command(argv: list[str], workdir: Path) -> list[str]:
    """`argv` as it is executed here: with this interpreter, and with folders of this machine for the container's."""
    arguments = [at_mount(argument, workdir) for argument in argv]
    if arguments and arguments[0] in _PYTHONS:
        arguments[0] = sys.executable
    return arguments


def at_mount(text: str, workdir: Path) -> str:
    """A path of the container, where that is the whole text, as one of this machine.

    >>> at_mount("/app/main.py", Path("/w/workdir")), at_mount("lib:/app", Path("/w/workdir"))
    ('/w/workdir/main.py', 'lib:/app')
    """
    for mount, folder in _MOUNTS.items():
        if text == mount or text.startswith(mount + "/"):
            return str(workdir.parent / folder) + text[len(mount) :]
    return text


def _where_applicable(run: Run) -> dict[str, str]:
    request, found = run.job.request, {}
    if run.region:
        found["IRIS_WORKER_REGION"] = run.region
    if run.job.env:
        found["IRIS_JOB_ENV"] = json.dumps(run.job.env)
    placed = [json_format.MessageToDict(rule) for rule in request.constraints if rule.key in ("region", "zone")]
    if placed:
        found["IRIS_JOB_CONSTRAINTS"] = json.dumps(placed)
    found |= {f"IRIS_PORT_{name.upper()}": str(port) for name, port in _free_ports(request.ports).items()}
    if request.resources.device.WhichOneof("device") == "tpu":
        found |= _TPU_DEFAULTS | _slices(request.resources.device.tpu, len(run.job.tasks))
    return found


def _slices(tpu: job_pb2.TpuDevice, task_count: int) -> dict[str, str]:
    topology = TPU_TOPOLOGIES.get(tpu.variant.strip().lower())
    if topology is None or task_count <= topology.vm_count:
        return {}
    slices, rest = divmod(task_count, topology.vm_count)
    if rest:
        raise ValueError(
            f"TPU task count ({task_count}) must be divisible by TPU VM count ({topology.vm_count}) "
            f"for variant '{tpu.variant}'"
        )
    return {"IRIS_SLICE_COUNT": str(slices), "IRIS_TASKS_PER_SLICE": str(topology.vm_count)}


def _free_ports(names: Iterable[str]) -> dict[str, int]:
    """One free port per name, all different because all are open at the same time."""
    sockets = {name: socket.create_server((LOOPBACK, 0)) for name in names}
    ports = {name: opened.getsockname()[1] for name, opened in sockets.items()}
    for opened in sockets.values():
        opened.close()
    return ports
