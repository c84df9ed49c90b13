"""A job that is one slice of several: its command starts when the tasks of all slices have found each other."""

from __future__ import annotations

import json

from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris.callables import FOLDER, shipped_files
from fray_airflow.job import Rendezvous


def meet_first(runtime: job_pb2.RuntimeEntrypoint, rendezvous: Rendezvous) -> None:
    """Puts the script before the command, in `runtime` itself. Not to be called twice."""
    # -I: the author's PYTHONPATH is for the command, and may hold a module named like one of Python's own.
    start = f'exec "${{IRIS_PYTHON:-python3}}" -I "$IRIS_WORKDIR/{FOLDER}/rendezvous.py" "$@"'
    runtime.run_command.argv[:] = ["bash", "-c", start, "rendezvous", *runtime.run_command.argv]
    options = {"tasks": rendezvous.tasks, "seconds": rendezvous.seconds}
    files = {**shipped_files("rendezvous.py"), f"{FOLDER}/rendezvous.json": json.dumps(options).encode()}
    runtime.workdir_files.update(files)
