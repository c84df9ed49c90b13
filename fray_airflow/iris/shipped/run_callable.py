"""Runs a pickled function on the cluster. Shipped with the job; uses the standard library and the files beside it."""

import json
import pickle
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    facts = json.loads((HERE / "callable.json").read_text())
    check_python(facts)
    # The copy of cloudpickle that made the pickle, in case the environment has none or another.
    # Behind it the work folder, where the workspace's modules are; the script's own folder is first already.
    sys.path.insert(0, str(HERE))
    sys.path.insert(1, str(HERE.parent))
    try:
        function, args, kwargs = pickle.loads((HERE / "callable.pkl").read_bytes())
    except ModuleNotFoundError as error:
        sys.exit(
            f"{facts['function']} needs the module {error.name!r}, which this environment lacks. "
            "Add it to the image, to the workspace's project or to pip_packages."
        )
    options = facts.get("result")
    if options is None:
        function(*args, **kwargs)
    else:
        run_for_result(facts["function"], lambda: function(*args, **kwargs), options)


def check_python(facts: dict) -> None:
    # Byte code of another minor version does not fail to load: it crashes the interpreter.
    here, there = list(sys.version_info[:2]), facts["python"]
    if here != there:
        sys.exit(
            f"{facts['function']} was pickled by Python {there[0]}.{there[1]}, but this environment has "
            f"{here[0]}.{here[1]}. Use an image or a workspace with Python {there[0]}.{there[1]}, "
            "or run a command instead of a function."
        )


def run_for_result(name, call, options) -> None:
    """Ends with exit code 0 only when the value is where the author's Airflow can read it."""
    import push_result

    try:
        value = call()
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
        value = None
    except Exception as error:
        traceback.print_exc()
        try:
            # Two frames: this function's and the lambda's.
            push_result.push_exception(error, 2)
        except push_result.ResultError as lost:
            sys.stderr.write(f"The exception could not be sent to Airflow: {lost}\n")
        sys.exit(1)
    if not push_result.is_sender(options):
        return
    try:
        push_result.push_value(value, options)
    except push_result.ResultError as error:
        sys.exit(f"{name} returned, but its result cannot be delivered: {error}")


if __name__ == "__main__":
    main()
