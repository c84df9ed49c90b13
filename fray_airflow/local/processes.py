"""Tasks as real processes of this machine, each in a folder and a process group of its own."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from .environment import command, task_environment
from .logs import LogStore
from .runner import Exit, Run, exit_error

_PUMP_PATIENCE_SECONDS = 1.0


@dataclass
class _Process:
    """A started attempt. `fault` is what a pump met that fails the task."""

    run: Run
    popen: subprocess.Popen[bytes]
    folder: Path
    pumps: list[threading.Thread] = field(default_factory=list)
    last_stderr: str = ""
    fault: str = ""
    kill_at: float | None = None

    def signal(self, number: signal.Signals) -> None:
        """To the whole group: what the task started must not outlive it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, number)


class ProcessRunner:
    """Treats bundle, files and argv as Iris's local runtime does: no shell, no setup commands, the server's own cwd."""

    def __init__(self, logs: LogStore, url: Callable[[], str], kill_grace_seconds: float) -> None:
        self._logs = logs
        self._url = url
        self._kill_grace_seconds = kill_grace_seconds
        self._root = Path(tempfile.mkdtemp(prefix="fray-iris-"))
        self._processes: dict[str, _Process] = {}
        self._unstarted: list[Exit] = []

    def start(self, run: Run) -> None:
        folder = self._root / run.uid
        try:
            workdir = _prepare(run, folder)
            env = task_environment(run, workdir, self._url())
            argv = command(list(run.job.request.entrypoint.run_command.argv), workdir)
            self._processes[run.uid] = self._launch(run, folder, argv, env)
        except Exception as error:
            # Whatever cannot be started is the task's failure, told by the exception's name and text.
            shutil.rmtree(folder, ignore_errors=True)
            self._unstarted.append(Exit(run.uid, 1, f"{type(error).__name__}: {error}"))

    def stop(self, uid: str) -> None:
        process = self._processes.get(uid)
        if process is not None and process.kill_at is None:
            process.signal(signal.SIGTERM)
            process.kill_at = time.monotonic() + self._kill_grace_seconds

    def poll(self) -> list[Exit]:
        exits, self._unstarted = self._unstarted, []
        for uid, process in list(self._processes.items()):
            if process.fault or (process.kill_at is not None and time.monotonic() >= process.kill_at):
                process.signal(signal.SIGKILL)
            if process.popen.poll() is not None:
                exits.append(self._reap(process))
                del self._processes[uid]
        return exits

    def close(self) -> None:
        for process in self._processes.values():
            process.signal(signal.SIGKILL)
        for process in self._processes.values():
            process.popen.wait()
            self._reap(process)
        self._processes.clear()
        shutil.rmtree(self._root, ignore_errors=True)

    def _launch(self, run: Run, folder: Path, argv: list[str], env: Mapping[str, str]) -> _Process:
        if not argv:
            raise IndexError("list index out of range")
        popen = subprocess.Popen(
            argv,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        process = _Process(run, popen, folder)
        for source, stream in (("stdout", popen.stdout), ("stderr", popen.stderr)):
            pump = threading.Thread(target=self._pump, args=(process, source, stream), daemon=True)
            pump.start()
            process.pumps.append(pump)
        return process

    def _pump(self, process: _Process, source: str, stream: IO[bytes]) -> None:
        run = process.run
        for raw in stream:
            try:
                line = raw.decode().rstrip()
            except UnicodeDecodeError as error:
                process.fault = process.fault or f"UnicodeDecodeError: {error}"
                break
            self._logs.write(run.log_key, source, line, run.attempt.attempt_id)
            if source == "stderr" and line:
                process.last_stderr = line

    def _reap(self, process: _Process) -> Exit:
        """The process has ended: end what it left behind, so that the pumps see the end of its output."""
        process.signal(signal.SIGKILL)
        for pump in process.pumps:
            pump.join(_PUMP_PATIENCE_SECONDS)
        # A pump that is still reading, because something left the group with the pipe, holds the stream's lock.
        if not any(pump.is_alive() for pump in process.pumps):
            for stream in (process.popen.stdout, process.popen.stderr):
                if stream is not None:
                    stream.close()
        shutil.rmtree(process.folder, ignore_errors=True)
        exit_code = process.popen.returncode
        if process.fault:
            return Exit(process.run.uid, 1, process.fault)
        return Exit(process.run.uid, exit_code, exit_error(exit_code, process.last_stderr) if exit_code else "")


def _prepare(run: Run, folder: Path) -> Path:
    """The workdir: the bundle's members, then the files, which win. Modes of zip members are lost, as in Iris."""
    workdir = folder / "workdir"
    workdir.mkdir(parents=True)
    for beside in ("outputs", "tmp"):
        (folder / beside).mkdir()
    request = run.job.request
    if request.bundle_id:
        with zipfile.ZipFile(io.BytesIO(_fetch(run.blobs, request.bundle_id))) as bundle:
            bundle.extractall(workdir)
    large = {name: _fetch(run.blobs, digest) for name, digest in request.entrypoint.workdir_file_refs.items()}
    for name, content in {**run.job.files, **large}.items():
        target = workdir / _checked(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return workdir


def _fetch(blobs: Mapping[str, bytes], digest: str) -> bytes:
    if digest not in blobs:
        raise RuntimeError(f"Failed to fetch {digest}: HTTP Error 404: Not Found")
    return blobs[digest]


def _checked(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"Invalid workdir file path {name!r}")
    return path
