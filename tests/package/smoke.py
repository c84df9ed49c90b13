"""Builds the package as for a release, and uses it as somebody does who has installed it: `make package-test`.

The wheel is made from the unpacked sdist, so that both are complete. It goes into new environments, beside the newest
and beside the lowest versions of what it requires; what is checked there is in `installed.py`.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[2]
REQUIREMENTS = {"newest": "runtime.txt", "lowest": "oldest.txt"}
NEEDED = (
    "fray_airflow/__init__.py",
    "fray_airflow/get_provider_info.py",
    "fray_airflow/iris/_gen/job_pb2.py",
    "fray_airflow/iris/_gen/job_pb2.pyi",
    "fray_airflow/iris/shipped/run_callable.py",
    "fray_airflow/py.typed",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", type=Path, required=True, help="the uv that makes the clean environment")
    uv = parser.parse_args().uv.absolute()
    with tempfile.TemporaryDirectory(prefix="fray-airflow-") as folder:
        temporary = Path(folder)
        wheel = build(temporary)
        check_contents(wheel)
        run([sys.executable, "-m", "twine", "check", "--strict", *(temporary / "dist").iterdir()], temporary)
        for name, pins in REQUIREMENTS.items():
            place = temporary / name
            place.mkdir()
            python = install(uv, wheel, pins, place)
            print("== using it from an empty folder")
            empty = place / "empty"
            empty.mkdir()
            run([python, "-I", ROOT / "tests" / "package" / "installed.py"], empty, AIRFLOW_HOME=str(place / "airflow"))
            run([python.with_name("fray-airflow"), "explain", "--tpu", "v5p-16"], empty)
    print("The package installs and works.")


def build(temporary: Path) -> Path:
    print("== building sdist and wheel")
    hatchling = [sys.executable, "-m", "hatchling", "build", "-d", temporary / "dist", "-t"]
    run([*hatchling, "sdist"], ROOT)
    (sdist,) = (temporary / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(temporary / "source", filter="data")
    (source,) = (temporary / "source").iterdir()
    run([*hatchling, "wheel"], source)
    (wheel,) = (temporary / "dist").glob("*.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        parsed = Metadata.from_email(archive.read(metadata), validate=True)
    examples = {f"fray_airflow/example_dags/{path.name}" for path in (ROOT / "dags").glob("*.py")}
    expected = {*NEEDED, *examples, metadata.replace("METADATA", "licenses/LICENSE")}
    strangers = {name for name in names if not name.startswith(("fray_airflow/", metadata.partition("/")[0]))}
    problems = [f"not in the wheel: {name}" for name in sorted(expected - names)]
    problems += [f"has no place in the wheel: {name}" for name in sorted(strangers)]
    if not examples:
        problems.append("there is no example DAG in dags/")
    if not parsed.description or parsed.description_content_type != "text/markdown":
        problems.append("the README is not the description")
    if problems:
        sys.exit("\n".join(problems))


def install(uv: Path, wheel: Path, pins: str, folder: Path) -> Path:
    print(f"== installing the wheel into a clean environment, beside requirements/{pins}")
    environment = folder / "venv"
    python = environment / "bin" / "python"
    run([uv, "venv", "--quiet", "--python", sys.executable, environment], folder)
    add = [uv, "pip", "install", "--quiet", "--python", python]
    run([*add, "--require-hashes", "-r", ROOT / "requirements" / pins], folder)
    run([*add, "--no-deps", wheel], folder)
    run([uv, "pip", "check", "--quiet", "--python", python], folder)
    return python


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> None:
    """A failure ends everything. What the caller's shell says about Airflow or Python does not reach the command."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON", "VIRTUAL_ENV"))
    }
    ended = subprocess.run(command, cwd=folder, env=kept | environment, check=False)
    if ended.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}")


if __name__ == "__main__":
    main()
