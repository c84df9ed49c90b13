"""Makes `fray_airflow/iris/_gen` from the `.proto` files beside this script.

    python protos/generate.py           write the modules
    python protos/generate.py --check   exit 1 if the committed modules differ from what would be written

Runs on grpcio-tools 1.66, whose output works on every protobuf runtime from 5.27 on. What protoc writes is changed in
two places: modules import one another relatively, and descriptors go into a pool of our own (see `_gen/__init__.py`).
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROTOS = Path(__file__).parent
TARGET = PROTOS.parent / "fray_airflow" / "iris" / "_gen"
PACKAGE = "fray_airflow.iris._gen"


def generate() -> dict[str, str]:
    """Every generated file by its name in TARGET."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as out:
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}"]
        subprocess.run([*protoc, f"--python_out={out}", f"--pyi_out={out}", *sources], check=True)
        return {path.name: adapt(path.read_text()) for path in sorted(Path(out).rglob("*_pb2.py*"))}


def adapt(text: str) -> str:
    """What protoc wrote, moved into our package and our descriptor pool."""
    text = re.sub(r"^from (?:iris|finelog) import (\w+_pb2)", r"from . import \1", text, flags=re.M)
    text = text.replace(
        "from google.protobuf import descriptor_pool as _descriptor_pool\n", "from . import POOL as _POOL\n"
    )
    text = text.replace("_descriptor_pool.Default()", "_POOL")
    return re.sub(r"'(?:iris|finelog)\.(\w+_pb2)'", rf"'{PACKAGE}.\1'", text)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = generate()
    present = {path.name: path.read_text() for path in TARGET.glob("*_pb2.py*")}
    if check:
        differing = sorted(name for name in made.keys() | present.keys() if made.get(name) != present.get(name))
        print("generated modules differ: " + ", ".join(differing) if differing else "generated modules are up to date")
        return 1 if differing else 0
    for name in present.keys() - made.keys():
        (TARGET / name).unlink()
    for name, text in made.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
