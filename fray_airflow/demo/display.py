"""What the demo shows, read from Iris through the client: requests, placement, states, log lines, results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fray_airflow.iris import IrisClient
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.logs import LogCursor
from fray_airflow.status import JobStatus

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


@dataclass
class _Watched:
    """A job on the screen: what has been shown of it."""

    colour: str
    cursor: LogCursor
    state: str = ""
    reason: str = ""
    placed: bool = False
    states: Mapping[str, int] = field(default_factory=dict)


class Display:
    """Prints what is new at each `update`."""

    def __init__(self, console: Console, client: IrisClient) -> None:
        self._console = console
        self._client = client
        self._jobs: dict[str, _Watched] = {}

    def show_fleet(self) -> None:
        hosts: Counter[str] = Counter()
        slices: dict[str, set[str]] = {}
        for worker in self._client.workers():
            attributes = worker.attributes
            device = str(attributes.get("device-variant") or attributes.get("device-type", "cpu"))
            hosts[device] += 1
            if name := attributes.get("tpu-name"):
                slices.setdefault(device, set()).add(str(name))
        table = Table(title="Fleet", title_justify="left")
        table.add_column("device")
        table.add_column("hosts", justify="right")
        table.add_column("slices", justify="right")
        for device, count in hosts.items():
            table.add_row(device, str(count), str(len(slices[device])) if device in slices else "")
        self._console.print(table)

    def update(self) -> None:
        for job in reversed(self._client.jobs()):
            if job.job_id not in self._jobs:
                self._start(job)
            self._advance(self._client.job_status(job.job_id))

    def show_results(self, runs: Iterable[Mapping[str, Any]]) -> None:
        table = Table(title="Results", title_justify="left")
        for heading, justify in (
            ("task", "left"),
            ("state", "left"),
            ("queue s", "right"),
            ("run s", "right"),
            ("chip s", "right"),
            ("perplexity", "right"),
        ):
            table.add_column(heading, justify=justify)  # type: ignore[arg-type]  # a Literal to rich
        for run in runs:
            table.add_row(*_result_row(run))
        self._console.print()
        self._console.print(table)

    def _start(self, job: JobStatus) -> None:
        watched = _Watched(_COLOURS[len(self._jobs) % len(_COLOURS)], LogCursor(job.job_id))
        self._jobs[job.job_id] = watched
        self._say(job.job_id, f"submitted: {describe_request(self._client.job_request(job.job_id))}", style="bold")

    def _advance(self, job: JobStatus) -> None:
        watched = self._jobs[job.job_id]
        if (job.state.name, job.task_state_counts) != (watched.state, watched.states):
            counts = ", ".join(f"{count} {state}" for state, count in job.task_state_counts.items())
            watched.state, watched.states = job.state.name, job.task_state_counts
            self._show_placement(job, watched)
            self._say(job.job_id, f"{job.state.name} ({counts})", style="bold")
        if not job.state.finished and job.pending_reason and job.pending_reason != watched.reason:
            watched.reason = job.pending_reason
            self._say(job.job_id, f"waits: {' '.join(job.pending_reason.split())}", style="dim")
        page = self._client.logs(job.job_id, watched.cursor)
        watched.cursor = page.cursor
        for line in page.lines:
            self._say(job.job_id, str(line), style="")

    def _show_placement(self, job: JobStatus, watched: _Watched) -> None:
        tasks = self._client.tasks(job.job_id)
        if watched.placed or not tasks or not all(task.placed for task in tasks):
            return
        watched.placed = True
        workers = {worker.worker_id: worker for worker in self._client.workers()}
        for task in tasks:
            worker = workers.get(task.worker_id)
            slice_name = worker.attributes.get("tpu-name") if worker else None
            where = f"{task.worker_id}{f' of slice {slice_name}' if slice_name else ''}"
            self._say(job.job_id, f"replica {task.index} -> {where}", style="bold")

    def _say(self, job_id: str, text: str, style: str) -> None:
        name = job_id.rpartition("/")[2]
        line = Text.assemble((f"{name} ", self._jobs[job_id].colour), (text, style))
        self._console.print(line, soft_wrap=True)


def describe_request(request: Controller.LaunchJobRequest) -> str:
    """A launch request in one line: shape, host share, gang, command."""
    resources, device = request.resources, request.resources.device
    what = "CPU"
    if device.HasField("tpu"):
        what = f"TPU {device.tpu.variant} with {device.tpu.count} chips"
    elif device.HasField("gpu"):
        what = f"{device.gpu.count} x {device.gpu.variant}"
    host = f"{resources.cpu_millicores / 1000:g} cores, {resources.memory_bytes / 1024**3:g} GiB"
    gang = f", together by {request.coscheduling.group_by}" if request.HasField("coscheduling") else ""
    return f"{request.replicas} x [{what}, {host}]{gang}: {' '.join(request.entrypoint.run_command.argv)}"


def _result_row(run: Mapping[str, Any]) -> tuple[str, ...]:
    value = run["value"] if isinstance(run["value"], dict) else {}
    result = value["result"] if "job_id" in value else value
    result = result if isinstance(result, dict) else {}
    return (
        str(run["task_id"]),
        str(run["state"]),
        _number(value.get("queue_seconds")),
        _number(value.get("run_seconds")),
        _number(value.get("chip_seconds")),
        _number(result.get("perplexity")),
    )


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, int | float) else ""
