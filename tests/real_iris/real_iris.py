"""Runs the real Iris on this machine: its local cluster, in a process group, home and folder of its own.

`connect` is `iris cluster start --local` as it comes. `grpc` is the same controller with its own web application served
once more, by a server that can do gRPC: see `serve_grpc.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

HERE = Path(__file__).resolve().parent
CLUSTER = HERE / "cluster.yaml"
PACKAGES = {"iris": "marin-iris[controller]", "hypercorn": "hypercorn", "h2": "h2"}

Transport = Literal["connect", "grpc"]

_START_SECONDS = 90
_STOP_SECONDS = 15
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class RealIris:
    """Where it listens. gRPC clients read logs at `log_target`, the log service's own address."""

    target: str
    log_target: str | None = None


def missing_packages() -> str:
    """What must be installed before `run_real_iris` works; "" if nothing."""
    return ", ".join(package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None)


@contextlib.contextmanager
def run_real_iris(transport: Transport, cluster: Path = CLUSTER) -> Iterator[RealIris]:
    """A controller with nothing in it, on a free loopback port. Raises RuntimeError with its output if it fails."""
    # Iris cleans up behind itself unless it is killed, and then a file may vanish while the folder is removed.
    with tempfile.TemporaryDirectory(prefix="real-iris-", ignore_cleanup_errors=True) as folder:
        output = Path(folder, "output.txt")
        process = _start(transport, cluster, Path(folder), output)
        try:
            deadline = time.monotonic() + _START_SECONDS
            found = _wait(lambda: _printed_address(output), process, output, deadline)
            if transport == "connect":
                _wait(lambda: _healthy(found.target), process, output, deadline)
            yield found
        finally:
            _stop(process)


def _start(transport: Transport, cluster: Path, folder: Path, output: Path) -> subprocess.Popen[bytes]:
    command = {
        "connect": [
            str(Path(sysconfig.get_path("scripts"), "iris")),
            f"--config={cluster}",
            "cluster",
            "start",
            "--local",
        ],
        "grpc": [sys.executable, str(HERE / "serve_grpc.py"), str(cluster)],
    }[transport]
    for name in ("home", "work", "tmp"):
        (folder / name).mkdir()
    # Nothing of the caller's environment: an IRIS_ or a proxy variable would change what is tested.
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONUNBUFFERED": "1",
        "no_proxy": "*",
    }
    with output.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=folder / "work",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait[T](look, process: subprocess.Popen[bytes], output: Path, deadline: float) -> T:
    while not (found := look()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
        if process.returncode is not None or time.monotonic() > deadline:
            how = "did not come up in time" if process.returncode is None else f"ended with {process.returncode}"
            raise RuntimeError(f"the real Iris {how}; its last words:\n{output.read_text()[-4000:]}")
    return found


def _printed_address(output: Path) -> RealIris | None:
    for line in output.read_text().splitlines():
        # The CLI binds a free port whatever the configuration says, so the printed one counts.
        if started := re.search(r"Controller started at (http://\S+)$", line):
            return RealIris(started[1])
        if line.startswith('{"target"'):
            return RealIris(**json.loads(line))
    return None


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as reply:
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Asks first, so that it ends its workers and their tasks; then kills whatever is left of its group."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
