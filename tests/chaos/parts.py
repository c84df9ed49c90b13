"""A long-running process in a session of its own, that can be killed alone or with all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

POLL_SECONDS = 0.2


class Part:
    """Starts again under the same name and log file. `sessions` are all it ever had.

    The session tells its children, not the process group or the environment: a task runner has a group of its own,
    and a process that changes its title overwrites the memory where /proc reads its environment.
    """

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.sessions: list[int] = []
        self._argv, self._env, self._folder = list(argv), dict(env), folder
        self._popen: subprocess.Popen[bytes] | None = None

    def twin(self, name: str) -> Part:
        """The same program, once more."""
        return Part(name, self._argv, self._env, self._folder)

    @property
    def pid(self) -> int:
        return self.sessions[-1]

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                self._argv,
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.sessions.append(self._popen.pid)

    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def kill(self, *, children: bool) -> None:
        """kill -9 of the process, or of its whole session: a program that crashes, or a machine that does."""
        for process in self.members():
            if children or process.pid == self.pid:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self._popen.wait(10)

    def ask_to_stop(self, seconds: float) -> None:
        if not self.alive():
            return
        self._popen.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)

    def members(self) -> list[psutil.Process]:
        return list(in_sessions(self.sessions))

    def end(self) -> None:
        """Ends every process of every session, also what was orphaned by an earlier kill."""
        if self._popen is None:
            return
        deadline = time.monotonic() + 10
        while (left := self.members()) and time.monotonic() < deadline:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._popen.poll()
            time.sleep(POLL_SECONDS)
        self._popen.wait(10)


def in_sessions(sessions: Sequence[int]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) in sessions and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def with_argument(marker: str) -> Iterator[psutil.Process]:
    """Processes that have `marker` as one argument: how the programs of jobs are told, wherever Iris started them."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if marker in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def until(look: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as opened:
        return opened.getsockname()[1]


def plain_environment(folder: Path) -> dict[str, str]:
    """Nothing of the caller's AIRFLOW_ or IRIS_ variables, and no proxy between loopback addresses.

    PYTHONPATH is the copy of the package beside `folder`: a run takes minutes and must not see the author's edits.
    """
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(folder.parent / "code"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "no_proxy": "*",
    }
