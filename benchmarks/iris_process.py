"""An embedded Iris in a process of its own, so that what it takes is not counted as the client's.

    python benchmarks/iris_process.py 100

It reads commands from stdin, one JSON list a line, and answers each with a line of JSON. `IrisProcess` is how the other
benchmarks start and ask it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import IrisClient
from fray_airflow.iris.submission import prepare
from fray_airflow.local import Fleet, LocalIris, Outcome, server

_TICK_SECONDS = 0.5


class IrisProcess:
    """Use it in a `with` statement. `cpus`: machines of one processor; few, for jobs that only wait, cost it less."""

    def __init__(self, cpus: int = 1) -> None:
        self._cpus = cpus

    def __enter__(self) -> Self:
        argv = [sys.executable, str(Path(__file__).resolve()), str(self._cpus)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.target: str = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def wait_for_ever(self, count: int) -> list[str]:
        """Ids of that many jobs that find no place."""
        return self._ask("pending", count)

    def end_after(self, seconds: list[float]) -> list[str]:
        """Ids of jobs that end well, each after so many seconds."""
        return self._ask("end", seconds)

    def calls(self) -> dict[str, int]:
        return self._ask("calls")

    def _ask(self, *command: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def plain_job(name: str) -> JobRequest:
    resources = ResourceConfig.with_cpu(cpu=1, ram="1g", disk="1g")
    return JobRequest(name=name, entrypoint=Entrypoint.from_binary("true", []), resources=resources)


def main(cpus: int) -> int:
    # Thousands of waiting jobs would keep it busy otherwise, and the clients waiting.
    server.TICK_SECONDS = _TICK_SECONDS
    with LocalIris(Fleet.of(cpu=cpus), run="script") as iris:
        print(json.dumps(iris.target), flush=True)
        for line in sys.stdin:
            print(json.dumps(_answer(iris, json.loads(line))), flush=True)
    return 0


def _answer(iris: LocalIris, command: list[Any]) -> Any:
    match command:
        case ["pending", count]:
            return _launch(iris, [Outcome.stay_pending()] * count)
        case ["end", seconds]:
            return _launch(iris, [Outcome.succeed(seconds=each) for each in seconds])
        case ["calls"]:
            return dict(iris.calls)
    raise ValueError(command)


def _launch(iris: LocalIris, outcomes: list[Outcome]) -> list[str]:
    stem, job_ids = f"job-{time.monotonic_ns()}", []
    with IrisClient(iris.target) as client:
        request = prepare(plain_job(stem), user="airflow")
        # One rule for all: each job looks for its own from the first one on.
        iris.script(f"{stem}-*", *outcomes)
        for number in range(len(outcomes)):
            request.name = f"/airflow/{stem}-{number}"
            job_ids.append(client.launch(request))
    return job_ids


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
