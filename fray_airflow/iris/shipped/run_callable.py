"""Runs a pickled function on the cluster. Shipped with the job; uses the standard library and the files beside it."""

import json
import pickle
import sys
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
    function(*args, **kwargs)


def check_python(facts: dict) -> None:
    # Byte code of another minor version does not fail to load: it crashes the interpreter.
    here, there = list(sys.version_info[:2]), facts["python"]
    if here != there:
        sys.exit(
            f"{facts['function']} was pickled by Python {there[0]}.{there[1]}, but this environment has "
            f"{here[0]}.{here[1]}. Use an image or a workspace with Python {there[0]}.{there[1]}, "
            "or run a command instead of a function."
        )


if __name__ == "__main__":
    main()
