"""The Iris under the jobs: the embedded one, or a real controller that survives kill -9 beside workers of its own."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Protocol

from parts import Part, free_port, plain_environment, until

_START_SECONDS = 90
_HERE = Path(__file__).resolve().parent


class Iris(Protocol):
    """`port` is where it listens; `scheme` how to speak to it."""

    port: int
    scheme: str
    parts: dict[str, Part]

    def start(self) -> None: ...

    def stop(self) -> None: ...


class LocalIrisParts:
    """The embedded Iris in one process. It keeps everything in memory, so it is never killed."""

    scheme = "grpc"

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        folder.joinpath("fleet.json").write_text(json.dumps({"cpu": 2}))
        argv = [sys.executable, "-m", "fray_airflow.local", "--port", str(self.port), "--fleet", "fleet.json"]
        self.parts = {"iris": Part("iris", argv, plain_environment(folder), folder)}

    def start(self) -> None:
        part = self.parts["iris"]
        part.start()
        until(lambda: '"target"' in part.log.read_text(), _START_SECONDS, f"the embedded Iris ({part.log})")

    def stop(self) -> None:
        self.parts["iris"].ask_to_stop(10)
        self.parts["iris"].end()


class RealIrisParts:
    """Database, bundles and checkpoints are files, and tasks are children of the workers.

    So jobs go on while the controller is dead, and the next controller on the same files knows all of them.
    """

    scheme = "http"
    _WORKERS = 2

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        config = folder / "cluster.yaml"
        config.write_text(_CLUSTER.format(folder=folder, port=self.port))
        env = plain_environment(folder)
        serve = f"-m iris.cluster.controller.main serve --config {config} --host 127.0.0.1 --port {self.port}"
        argv = [sys.executable, *f"{serve} --state-dir {folder / 'state'} --checkpoint-interval 20".split()]
        self.parts = {"controller": Part("controller", argv, env, folder)}
        for number in range(self._WORKERS):
            worker = [sys.executable, str(_HERE / "real_worker.py"), self.url, str(number), str(folder)]
            self.parts[f"worker-{number}"] = Part(f"worker-{number}", worker, env, folder)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.parts["controller"].start()
        until(self.healthy, _START_SECONDS, f"the controller ({self.parts['controller'].log})")
        for name, part in self.parts.items():
            if name != "controller":
                part.start()

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as reply:
                return reply.status == 200
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def stop(self) -> None:
        """Its own way to stop would wait for ever on SIGTERM."""
        for part in self.parts.values():
            part.end()


# max_slices 0: no autoscaler, only workers that register themselves; the group is what submissions are checked against.
_CLUSTER = """\
name: chaos
platform: {{local: }}
controller: {{local: {{port: {port}}}}}
worker_provider: {{}}
storage: {{remote_state_dir: "file://{folder}/remote", local_state_dir: {folder}/state}}
defaults:
  autoscaler:
    evaluation_interval: {{milliseconds: 500}}
    scale_up_delay: {{milliseconds: 0}}
    scale_down_delay: {{milliseconds: 600000}}
scale_groups:
  cpu:
    num_vms: 1
    max_slices: 0
    resources: {{cpu: 64, ram: 256GB, disk: 1TB, device_type: cpu, capacity_type: on-demand}}
    slice_template: {{num_vms: 1, local: }}
"""
