"""Soak: a million lines that Iris holds go through a deferred task into Airflow's log, counted at both ends.

    python benchmarks/soak_logs.py                        # the embedded Iris
    python benchmarks/soak_logs.py --iris real            # a real one; needs the dependency group iris
    python benchmarks/soak_logs.py --lines 100000         # shorter

Nothing is simulated on Airflow's side: four real processes, IrisSubmitJobOperator defers, and its trigger runs in the
triggerer's event loop. Another trigger in the same loop notes how late the loop is, and how much memory its process
and the triggerer's supervisor hold. The lines are pushed to Iris's log service under the running job's key once the
task is deferred, faster than Airflow can write, since a worker of Iris would drop what is too fast for it. Exit code
0 if Iris and the task's log hold the same lines, each once and in order; else 1.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path += [str(_HERE.parent / "tests" / folder) for folder in ("chaos", "real_iris")]

from airflow_parts import Airflow
from iris_parts import LocalIrisParts
from parts import until
from real_iris import run_real_iris
from rich.console import Console
from rich.table import Table
from workload import DAG_ID

from fray_airflow.iris._gen.logging_pb2 import (
    LOG_LEVEL_INFO,
    MATCH_SCOPE_PREFIX,
    FetchLogsRequest,
    FetchLogsResponse,
    LogEntry,
    PushLogsRequest,
)

_PUSHED_LINES = 5_000
_FETCHED_LINES = 10_000
_TEXT = "line {:07d} step loss=2.3041 lr=3.0e-04 tokens/s=412345 grad_norm=0.87"
_MARK = "[replica 0] line "
_START_SECONDS = 120
_STALL_SECONDS = 180
_STARTED_SECONDS = 2
"""After the first line. By then the code of the trigger and of its client is loaded, once per triggerer."""

# Looks as the witness does, beside all that runs: what this is late by, the machine owes to nobody's event loop.
_IDLE = """
import sys, time
while True:
    late, end = 0.0, time.monotonic() + 1
    while time.monotonic() < end:
        started = time.monotonic()
        time.sleep(0.01)
        late = max(late, time.monotonic() - started - 0.01)
    print(late, flush=True)
"""

_DAG = """
from airflow.sdk import DAG
from loop_witness import WitnessOperator

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

with DAG("{dag_id}", schedule=None):
    WitnessOperator(task_id="witness", notes="{folder}/notes", stop="{folder}/stop")
    IrisSubmitJobOperator(
        task_id="soak",
        deferrable=True,
        command=["sh", "-c", "while [ ! -e {folder}/end ]; do sleep 0.2; done"],
        resource_config=ResourceConfig.with_cpu(cpu=1, ram="64m"),
        poll_interval=2,
    )
"""


class LogService:
    """A client of its own, over HTTP: what counts must not be what is counted."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}/proxy/system.log-server/finelog.logging.LogService/"

    def push(self, key: str, numbers: range) -> None:
        now = int(time.time() * 1000)
        request = PushLogsRequest(key=key)
        for number in numbers:
            entry = LogEntry(source="stdout", data=_TEXT.format(number), level=LOG_LEVEL_INFO)
            entry.timestamp.epoch_ms = now
            request.entries.append(entry)
        self._call("PushLogs", request.SerializeToString())

    def count(self, job_id: str) -> int:
        found = cursor = 0
        while True:
            request = FetchLogsRequest(
                source=f"{job_id}/0:0", match_scope=MATCH_SCOPE_PREFIX, cursor=cursor, max_lines=_FETCHED_LINES
            )
            page = FetchLogsResponse.FromString(self._call("FetchLogs", request.SerializeToString()))
            if not page.entries:
                return found
            found += sum(entry.data.startswith("line ") for entry in page.entries)
            cursor = page.cursor

    def _call(self, method: str, body: bytes) -> bytes:
        headers = {"content-type": "application/proto", "connect-protocol-version": "1"}
        request = urllib.request.Request(self._url + method, body, headers)
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.read()


@dataclass
class TaskLog:
    """The lines of the job in the log files of one task, read as they grow."""

    folder: Path
    numbers: list[int] = field(default_factory=list)
    first: float = 0.0
    last: float = 0.0
    _read: dict[Path, int] = field(default_factory=dict)

    def look(self) -> int:
        for path in sorted(self.folder.glob("logs/dag_id=*/**/task_id=soak/**/attempt=*.log*")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._read[path] = self._read.get(path, 0) + len(line)
                    self._learn(line)
        return len(self.numbers)

    def _learn(self, line: bytes) -> None:
        if _MARK.encode() not in line:
            return
        entry = json.loads(line)
        # While the trigger is behind, lines share an event.
        texts = [text for text in entry["event"].split("\n") if text.startswith(_MARK)]
        self.numbers += [int(text.removeprefix(_MARK).partition(" ")[0]) for text in texts]
        self.last = datetime.fromisoformat(entry["timestamp"]).timestamp()
        self.first = self.first or self.last


@dataclass(frozen=True)
class Outcome:
    held: int
    pushed_seconds: float
    log: TaskLog
    notes: list[dict[str, Any]]
    idle: list[float]

    def row(self) -> dict[str, str]:
        during = [note for note in self.notes if self.log.first <= note["at"] <= self.log.last + 1]
        middle = [note for note in during if note["at"] <= (self.log.first + self.log.last) / 2] or during
        seconds = self.log.last - self.log.first
        lags = sorted(note["lag"] for note in during if note["at"] > self.log.first + _STARTED_SECONDS)
        starting = [note["lag"] for note in self.notes if note["at"] <= self.log.first + _STARTED_SECONDS]
        return {
            "lines at Iris": f"{self.held:,}",
            "lines in the task's log": f"{len(self.log.numbers):,}",
            "each once and in order": "yes" if self.log.numbers == list(range(self.held)) else "NO",
            "pushed to Iris within": f"{self.pushed_seconds:.0f} s",
            "written to the log within": f"{seconds:.0f} s",
            "lines per second": f"{len(self.log.numbers) / seconds:,.0f}",
            "longest stall of the event loop": f"{1000 * max(lags):.0f} ms",
            "its worst in each second, median": f"{1000 * lags[len(lags) // 2]:.0f} ms",
            "longest while the first trigger is loaded": f"{1000 * max(starting):.0f} ms",
            "the same of an idle process: longest, median": " / ".join(
                f"{1000 * late:.0f}" for late in (max(self.idle), sorted(self.idle)[len(self.idle) // 2])
            )
            + " ms",
            **{
                f"memory of the {name}: start, half, peak": " / ".join(
                    f"{size / 2**20:.0f}"
                    for size in (during[0][name], middle[-1][name], max(note[name] for note in during))
                )
                + " MiB"
                for name in ("runner", "supervisor")
            },
        }

    @property
    def complete(self) -> bool:
        return self.log.numbers == list(range(self.held))


def main() -> int:
    options = _options()
    # As Ctrl-C, so that everything is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    console = Console(width=100)
    folder = Path(tempfile.mkdtemp(prefix="fray-soak-"))
    try:
        outcome = _soak(folder, options.lines, options.iris)
    finally:
        if options.keep:
            console.print(f"Logs: {folder}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    table = Table(title=f"{options.lines:,} lines, {options.iris} Iris", show_header=False, title_justify="left")
    for name, value in outcome.row().items():
        table.add_row(name, value)
    console.print(table)
    return 0 if outcome.complete and outcome.held == options.lines else 1


def _soak(folder: Path, lines: int, kind: str) -> Outcome:
    for name in ("code", "airflow", "airflow/dags"):
        folder.joinpath(name).mkdir()
    # Airflow gets copies: a run takes minutes and must not see edits.
    shutil.copy(_HERE / "loop_witness.py", folder / "code")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_HERE.parent / "fray_airflow", folder / "code/fray_airflow", ignore=ignored)
    folder.joinpath("airflow/dags/soak.py").write_text(_DAG.format(dag_id=DAG_ID, folder=folder))
    with _iris(kind, folder) as (target, url), _airflow(folder / "airflow", target) as airflow:
        log = TaskLog(folder / "airflow")
        until(lambda: _state(airflow, "soak") == _state(airflow, "witness") == "deferred", _START_SECONDS, "deferral")
        job_id = _job_id(airflow)
        service, started = LogService(url), time.monotonic()
        with _idle(folder / "idle"):
            for start in range(0, lines, _PUSHED_LINES):
                service.push(f"{job_id}/0:0", range(start, min(start + _PUSHED_LINES, lines)))
            pushed_seconds = time.monotonic() - started
            _until_written(log, lines // 2)
            # From here on the job has ended, and the rest is drained.
            folder.joinpath("end").touch()
            _until_written(log, lines)
        until(lambda: _state(airflow, "soak") in ("success", "failed"), _START_SECONDS, "the end of the task")
        held = service.count(job_id)
        folder.joinpath("stop").touch()
        until(lambda: _state(airflow, "witness") in ("success", "failed"), _START_SECONDS, "the end of the witness")
        log.look()
        notes = [json.loads(line) for line in folder.joinpath("notes").read_text().splitlines()]
        idle = [float(line) for line in folder.joinpath("idle").read_text().splitlines()]
        return Outcome(held, pushed_seconds, log, notes, idle)


@contextlib.contextmanager
def _idle(output: Path) -> Iterator[None]:
    with output.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", _IDLE], stdout=file)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _iris(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Its address for Airflow, and its URL."""
    if kind == "real":
        with run_real_iris("connect") as real:
            yield real.target, real.target
        return
    folder.joinpath("iris").mkdir()
    iris = LocalIrisParts(folder / "iris")
    try:
        iris.start()
        addresses = json.loads(iris.parts["iris"].log.read_text().splitlines()[-1])
        yield addresses["target"], addresses["url"]
    finally:
        iris.stop()


@contextlib.contextmanager
def _airflow(home: Path, target: str) -> Iterator[Airflow]:
    scheme, _, address = target.partition("://")
    host, _, port = address.rpartition(":")
    airflow = Airflow(home, {"host": f"{scheme}://{host}", "port": int(port)}, parallelism=2)
    try:
        airflow.start()
        airflow.start_run()
        yield airflow
    finally:
        airflow.stop()


def _state(airflow: Airflow, task_id: str) -> str:
    rows = airflow.task_instances() or []
    return next((row["state"] for row in rows if row["task_id"] == task_id), None) or ""


def _job_id(airflow: Airflow) -> str:
    path = f"/api/v2/dags/{DAG_ID}/dagRuns/{DAG_ID}/taskInstances/soak/xcomEntries/job_id"
    return airflow.ask("GET", path)["value"]


def _until_written(log: TaskLog, lines: int) -> None:
    """Gives up when the log has not grown for a while: what is missing then is missing for good."""
    count, deadline = log.look(), time.monotonic() + _STALL_SECONDS
    while count < lines and time.monotonic() < deadline:
        time.sleep(1)
        if (now := log.look()) > count:
            count, deadline = now, time.monotonic() + _STALL_SECONDS


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iris", choices=["local", "real"], default="local")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--keep", action="store_true", help="leave the folder with all logs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
