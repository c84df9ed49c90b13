"""What can go wrong, and how it is told that the system is over it."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil
from airflow_parts import Airflow
from iris_parts import Iris, RealIrisParts
from parts import until
from proxy import Proxy

_VICTIM_SECONDS = 15
_WINDOW_SECONDS = (5, 15)

Recovered = Callable[[], bool]


@dataclass
class Struck:
    """A fault that happened. `recovery` is in seconds, None as long as there is none."""

    kind: str
    what: str
    at: float
    recovered: Recovered
    recovery: float | None = None

    def look(self) -> None:
        if self.recovery is None and self.recovered():
            self.recovery = time.time() - self.at


class Faults:
    """Strikes one fault at a time; a strike returns None when there was nobody to strike."""

    def __init__(self, airflow: Airflow, iris: Iris, proxy: Proxy, chance: random.Random) -> None:
        self._airflow, self._iris, self._proxy, self._chance = airflow, iris, proxy, chance
        self._timers: list[threading.Timer] = []
        self._windows = 0
        self.kinds: dict[str, Callable[[], tuple[str, Recovered] | None]] = {
            "task runner": self._runner,
            "task supervisor": self._supervisor,
            "runner, launch under way": self._runner_in_launch,
            "triggerer": lambda: self._airflow_part("triggerer"),
            "scheduler": lambda: self._airflow_part("scheduler"),
            "api-server": self._api_server,
            "replies cut": lambda: self._window("cut"),
            "refused": lambda: self._window("refuse"),
            "delayed": lambda: self._window("delay"),
        }
        if isinstance(iris, RealIrisParts):
            self.kinds["controller"] = self._controller

    def keep(self, kinds: Sequence[str]) -> None:
        """Only these from now on; all if there are none. Raises ValueError that lists the kinds."""
        if unknown := sorted(set(kinds) - self.kinds.keys()):
            raise ValueError(f"unknown faults {unknown}; choose from {sorted(self.kinds)}")
        self.kinds = {kind: strike for kind, strike in self.kinds.items() if kind in kinds or not kinds}

    def strike(self, kind: str) -> Struck | None:
        at = time.time()
        done = self.kinds[kind]()
        return Struck(kind, done[0], at, done[1]) if done else None

    def end(self) -> None:
        """Nothing is held up any more."""
        for timer in self._timers:
            timer.cancel()
        self._proxy.on_next_launch(None)
        self._proxy.set("pass")

    def _runner(self) -> tuple[str, Recovered] | None:
        """The process with the author's code; its supervisor reports it at once."""
        found = self._victim()
        if found is None:
            return None
        try_id, process = found
        _kill(process)
        return f"kill -9 {process.pid} of try {try_id}", self._tried_again(try_id)

    def _supervisor(self) -> tuple[str, Recovered] | None:
        """The executor's process above a runner: nobody sends heartbeats for the runner, which goes on."""
        found = self._victim()
        if found is None:
            return None
        try_id, process = found
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and parent.pid != self._airflow.parts["scheduler"].pid:
                _kill(parent)
                return f"kill -9 {parent.pid}, supervisor of try {try_id}", self._tried_again(try_id)
        return None

    def _runner_in_launch(self) -> tuple[str, Recovered] | None:
        """The worst moment: the job exists, and the one who asked for it dies before it hears so."""
        struck: list[tuple[int, str]] = []
        self._proxy.on_next_launch(lambda port: self._kill_owner(port, struck))
        with contextlib.suppress(TimeoutError):
            until(lambda: struck, _VICTIM_SECONDS, "a launch")
        self._proxy.on_next_launch(None)
        if not struck:
            return None
        pid, try_id = struck[0]
        return f"kill -9 {pid} of try {try_id}, its launch unanswered", self._tried_again(try_id)

    def _kill_owner(self, port: int, struck: list[tuple[int, str]]) -> None:
        for try_id, process in self._airflow.runners().items():
            with contextlib.suppress(psutil.Error):
                if any(each.laddr and each.laddr.port == port for each in process.net_connections()):
                    _kill(process)
                    struck.append((process.pid, try_id))

    def _airflow_part(self, name: str) -> tuple[str, Recovered]:
        part = self._airflow.parts[name]
        children, pid = self._chance.random() < 0.5, part.pid
        part.kill(children=children)
        part.start()
        started = time.time()
        # One heartbeat may have been on its way to the database when its sender died.
        return (
            f"kill -9 {pid} {'with' if children else 'without'} its children, restarted as {part.pid}",
            lambda: self._airflow.heartbeat(name) > started + 1,
        )

    def _api_server(self) -> tuple[str, Recovered]:
        part = self._airflow.parts["api-server"]
        pid = part.pid
        part.kill(children=True)
        part.start()
        started = time.monotonic()
        return f"kill -9 {pid}, restarted as {part.pid}", lambda: self._airflow.answers_since(started)

    def _controller(self) -> tuple[str, Recovered] | None:
        part, away = self._iris.parts["controller"], self._chance.uniform(0, 8)
        pid = part.pid
        if not part.alive():
            return None
        part.kill(children=True)
        self._later(away, part.start)
        return f"kill -9 {pid}, restarted after {away:.1f} s", lambda: part.pid != pid and self._iris.healthy()

    def _window(self, mode: str) -> tuple[str, Recovered]:
        seconds = self._chance.uniform(*_WINDOW_SECONDS)
        end = time.monotonic() + seconds
        self._windows = number = self._windows + 1
        self._proxy.set(mode)
        # A later window is not ended by an earlier one.
        self._later(seconds, lambda: self._proxy.set("pass") if self._windows == number else None)
        return f"{mode} for {seconds:.1f} s", lambda: self._proxy.relayed_at > end

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, call)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _victim(self) -> tuple[str, psutil.Process] | None:
        with contextlib.suppress(TimeoutError):
            until(self._airflow.runners, _VICTIM_SECONDS, "a running task")
        runners = self._airflow.runners()
        if not runners:
            return None
        try_id = self._chance.choice(sorted(runners))
        return try_id, runners[try_id]

    def _tried_again(self, try_id: str) -> Recovered:
        since = time.monotonic()
        return lambda: self._airflow.again(try_id, since)


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
