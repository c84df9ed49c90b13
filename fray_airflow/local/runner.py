"""What runs an attempt, seen from the controller: started, polled, stopped."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fray_airflow.iris._gen import logging_pb2
from fray_airflow.iris.callables import FOLDER
from fray_airflow.logs import RESULT_MARK

from .logs import LogStore
from .script import Outcome
from .table import Attempt, Job, Task


@dataclass(frozen=True)
class Run:
    """An attempt as handed to a runner. `blobs` holds bundles and large files by their hash."""

    job: Job
    task: Task
    attempt: Attempt
    region: str
    blobs: dict[str, bytes]

    @property
    def uid(self) -> str:
        return self.attempt.uid

    @property
    def log_key(self) -> str:
        return f"{self.task.task_id}:{self.attempt.attempt_id}"


@dataclass(frozen=True)
class Exit:
    """A process is gone. An `error` with exit code 0 is still a failure."""

    uid: str
    exit_code: int = 0
    error: str = ""


class Runner(Protocol):
    """All calls come from one thread at a time; none of them blocks for long."""

    def start(self, run: Run) -> None: ...

    def stop(self, uid: str) -> None:
        """Begin to end it. Its Exit comes from a later `poll`; unknown uids are ignored."""

    def poll(self) -> Iterable[Exit]: ...

    def close(self) -> None:
        """End everything now."""


@dataclass
class _Scripted:
    run: Run
    outcome: Outcome
    began: float
    stdout: list[tuple[float, str]]
    stopped: bool = False


@dataclass(frozen=True)
class Event:
    """Something other than an exit that a script wants to happen to the task of `uid`."""

    uid: str
    outcome: Outcome


class ScriptedRunner:
    """Plays outcomes against the clock. What is neither exit nor line becomes an Event for the cluster to act on."""

    def __init__(self, logs: LogStore) -> None:
        self._logs = logs
        self._playing: dict[str, _Scripted] = {}

    def start(self, run: Run, outcome: Outcome, now: float) -> None:
        if outcome.replica is not None and outcome.replica != run.task.index:
            # The others are still busy when it happens, so that the end of one task shows in all of them.
            seconds = math.inf if outcome.kind == "lose_worker" else outcome.seconds + 1
            outcome = Outcome.succeed(outcome.lines, seconds=seconds)
        self._playing[run.uid] = _Scripted(run, outcome, now, _timed(outcome, now))

    def stop(self, uid: str) -> None:
        if uid in self._playing:
            self._playing[uid].stopped = True

    def poll(self, now: float) -> tuple[list[Exit], list[Event]]:
        exits, events = [], []
        for uid, scripted in list(self._playing.items()):
            self._write_due(scripted, now)
            if scripted.stopped:
                exits.append(Exit(uid, -15))
                del self._playing[uid]
            elif now >= scripted.began + scripted.outcome.seconds:
                if scripted.outcome.kind == "exit":
                    self._deliver(scripted)
                    exits.append(_exit(uid, scripted.outcome))
                    del self._playing[uid]
                else:
                    events.append(Event(uid, scripted.outcome))
                    scripted.outcome = Outcome.hang()
        return exits, events

    def _deliver(self, scripted: _Scripted) -> None:
        """What the program would have sent home, in the way that the job asks for it."""
        run, outcome = scripted.run, scripted.outcome
        if outcome.exit_code:
            return
        if _pushes_result(run.job):
            envelope = json.dumps({"v": 1, "encoding": "json", "value": outcome.result})
            entry = logging_pb2.LogEntry(source="result", data=envelope)
            self._logs.push(logging_pb2.PushLogsRequest(key=f"{run.log_key}.result", entries=[entry]))
        elif outcome.result is not None and run.task.index == 0:
            line = RESULT_MARK + json.dumps(outcome.result)
            self._logs.write(run.log_key, "stdout", line, run.attempt.attempt_id)

    def _write_due(self, scripted: _Scripted, now: float) -> None:
        run = scripted.run
        while scripted.stdout and scripted.stdout[0][0] <= now:
            _, line = scripted.stdout.pop(0)
            self._logs.write(run.log_key, "stdout", line, run.attempt.attempt_id)
        over = now >= scripted.began + scripted.outcome.seconds
        if over and not scripted.stopped:
            for line in scripted.outcome.stderr:
                self._logs.write(run.log_key, "stderr", line, run.attempt.attempt_id)


def _pushes_result(job: Job) -> bool:
    """Functions and commands whose results are envelopes are told so by a file."""
    function = json.loads(job.files.get(f"{FOLDER}/callable.json", b"{}"))
    return bool(function.get("result")) or f"{FOLDER}/result.json" in job.files


def exit_error(exit_code: int, last_stderr_line: str) -> str:
    """Iris's text for an exit code other than 0."""
    if exit_code == 137:
        return "Exit code 137: killed by SIGKILL (possibly OOM or resource limit)"
    return f"Exit code: {exit_code}" + (f". stderr: {last_stderr_line}" if last_stderr_line else "")


def _exit(uid: str, outcome: Outcome) -> Exit:
    if outcome.exit_code == 0:
        return Exit(uid)
    return Exit(uid, outcome.exit_code, exit_error(outcome.exit_code, outcome.stderr[-1] if outcome.stderr else ""))


def _timed(outcome: Outcome, now: float) -> list[tuple[float, str]]:
    step = outcome.seconds / len(outcome.lines) if outcome.lines and outcome.seconds != math.inf else 0
    return [(now + step * number, line) for number, line in enumerate(outcome.lines)]
