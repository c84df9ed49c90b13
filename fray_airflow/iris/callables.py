"""A Python function as files of a job: pickled by value, with a runner that checks before it unpickles."""

from __future__ import annotations

import json
import sys
import sysconfig
from importlib import resources
from pathlib import Path
from types import ModuleType

import cloudpickle

from fray_airflow.errors import InvalidSpecError
from fray_airflow.job import Entrypoint
from fray_airflow.results import ResultOptions

FOLDER = "_fray"
"""Where the files lie in `$IRIS_WORKDIR`."""


def callable_argv() -> list[str]:
    """Starts the runner with the interpreter of the task's environment. Its working folder may be anywhere."""
    return ["bash", "-c", f'exec "${{IRIS_PYTHON:-python3}}" -u "$IRIS_WORKDIR/{FOLDER}/run_callable.py"']


def callable_files(entrypoint: Entrypoint) -> dict[str, bytes]:
    """The pickle, what it needs, and the runner, by name in the work folder."""
    facts = {
        "python": list(sys.version_info[:2]),
        "function": getattr(entrypoint.function, "__qualname__", repr(entrypoint.function)),
        "result": entrypoint.result and entrypoint.result.to_json(),
    }
    return {
        **shipped_files("run_callable.py", "push_result.py"),
        f"{FOLDER}/callable.json": json.dumps(facts).encode(),
        f"{FOLDER}/callable.pkl": pickle_call(entrypoint),
        **_cloudpickle_files(),
    }


def push_files(options: ResultOptions) -> dict[str, bytes]:
    """What a command pushes its result with: the script, and what is asked for."""
    return {**shipped_files("push_result.py"), f"{FOLDER}/result.json": json.dumps(options.to_json()).encode()}


def shipped_files(*names: str) -> dict[str, bytes]:
    """Scripts of this package, by their names in the work folder."""
    folder = resources.files("fray_airflow.iris.shipped")
    return {f"{FOLDER}/{name}": folder.joinpath(name).read_bytes() for name in names}


def pickle_call(entrypoint: Entrypoint) -> bytes:
    """The function, its arguments, and the code of the modules that will not be installed on the cluster.

    Raises InvalidSpecError when something in them cannot be pickled.
    """
    module = sys.modules.get(getattr(entrypoint.function, "__module__", "") or "")
    by_value = module is not None and not _installed(module)
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        pickled: bytes = cloudpickle.dumps((entrypoint.function, entrypoint.args, dict(entrypoint.kwargs)))
    except Exception as error:
        # pickle raises whatever the objects' own __reduce__ does.
        raise InvalidSpecError(
            "Entrypoint",
            [f"the function or its arguments cannot be pickled ({error}); pass plain values, open files there"],
        ) from error
    else:
        return pickled
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)


def _installed(module: ModuleType) -> bool:
    """In the standard library or site-packages, so that the cluster can have it too; a DAG file is neither."""
    path = getattr(module, "__file__", None)
    if path is None:
        return module.__name__ != "__main__"
    homes = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(path).is_relative_to(home) for home in homes)


def _cloudpickle_files() -> dict[str, bytes]:
    package = Path(cloudpickle.__file__).parent
    return {f"{FOLDER}/cloudpickle/{path.name}": path.read_bytes() for path in sorted(package.glob("*.py"))}
