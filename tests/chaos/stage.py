"""One performance: everything is started, struck while jobs run, judged, and cleared away."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_parts import Airflow
from faults import Faults, Struck
from iris_parts import Iris
from parts import POLL_SECONDS, Part, in_sessions, with_argument
from proxy import Proxy
from report import print_report
from rich.console import Console
from sightings import Sightings
from verdict import Facts, Violation, judge, totals
from workload import Work, write_dag

_PAUSE_SECONDS = (3, 9)
_SETTLE_SECONDS = 30


@dataclass(frozen=True)
class Timeline:
    console: Console
    start: float
    deadline: float

    def say(self, text: str) -> None:
        clock = time.strftime("%H:%M:%S")
        line = f"{clock} +{time.time() - self.start:5.1f} s  {text}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    @property
    def over(self) -> bool:
        return time.time() > self.deadline


class Stage:
    def __init__(
        self,
        folder: Path,
        package: Path,
        iris: type[Iris],
        work: list[Work],
        chance: random.Random,
        parallelism: int,
    ) -> None:
        self._work, self._chance = work, chance
        self._marker = folder.name
        shutil.copytree(package, folder / "code" / "fray_airflow", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "iris").mkdir()
        (folder / "airflow").mkdir()
        self._iris = iris(folder / "iris")
        # Of its own: its threads draw in the order of the traffic, which no seed repeats.
        self._proxy = Proxy(self._iris.port, random.Random(chance.random()))
        connection = {"host": f"{self._iris.scheme}://127.0.0.1", "port": self._proxy.port}
        self._airflow = Airflow(folder / "airflow", connection, parallelism)
        write_dag(folder / "airflow" / "dags", work, self._marker)
        self._seen: Sightings | None = None
        self._faults = Faults(self._airflow, self._iris, self._proxy, chance)
        self._struck: list[Struck] = []

    def play(self, faults: int, kinds: Sequence[str], timeline: Timeline) -> list[Violation]:
        """`kinds`: which faults; none means all."""
        self._faults.keep(kinds)
        self._open(timeline)
        self._strike(faults, timeline)
        violations = self._finish(timeline)
        facts = self._facts()
        violations += judge(facts)
        print_report(timeline.console, self._struck, totals(facts), self._proxy, violations)
        return violations

    def clear(self) -> list[str]:
        """Stops all; returns what still lives."""
        self._faults.end()
        self._airflow.stop()
        if self._seen is not None:
            self._seen.stop()
        self._iris.stop()
        self._proxy.close()
        sessions = [session for part in self._parts() for session in part.sessions]
        left = [*in_sessions(sessions), *with_argument(self._marker)]
        return [f"{process.pid} {process.name()}" for process in left]

    def _open(self, timeline: Timeline) -> None:
        failed: list[BaseException] = []
        starting = threading.Thread(target=lambda: _noting(self._iris.start, failed), daemon=True)
        starting.start()
        self._airflow.start()
        starting.join()
        if failed:
            raise failed[0]
        self._seen = Sightings(f"{self._iris.scheme}://127.0.0.1:{self._iris.port}")
        self._seen.start()
        self._airflow.start_run()
        timeline.say(f"the run of {len(self._work)} task instances has started")

    def _strike(self, faults: int, timeline: Timeline) -> None:
        """Every kind comes once before one comes again."""
        deck: list[str] = []
        tries_left = 3 * faults
        self._wait(timeline, lambda: bool(self._seen.jobs))
        while len(self._struck) < faults and tries_left and not timeline.over and not self._ended():
            tries_left -= 1
            self._pause(timeline)
            if not deck:
                deck = self._chance.sample(sorted(self._faults.kinds), len(self._faults.kinds))
            struck = self._faults.strike(kind := deck.pop())
            if struck is None:
                timeline.say(f"{kind}: nobody to strike")
                continue
            self._struck.append(struck)
            timeline.say(f"fault {len(self._struck)}, {kind}: {struck.what}")

    def _pause(self, timeline: Timeline) -> None:
        end = time.time() + self._chance.uniform(*_PAUSE_SECONDS)
        self._wait(timeline, lambda: time.time() > end)

    def _finish(self, timeline: Timeline) -> list[Violation]:
        self._wait(timeline, self._ended)
        timeline.say("all task instances have ended" if self._ended() else "out of time")
        settle = time.time() + _SETTLE_SECONDS
        self._wait(timeline, lambda: time.time() > settle or (self._recovered() and not self._seen.live()), late=True)
        self._faults.end()
        self._seen.stop()
        missing = [each for each in self._struck if each.recovery is None]
        return [Violation("no recovery", f"{each.kind}: {each.what}") for each in missing]

    def _wait(self, timeline: Timeline, look, *, late: bool = False) -> None:
        while not look() and (late or not timeline.over):
            self._recovered()
            self._revive(timeline)
            time.sleep(POLL_SECONDS)

    def _revive(self, timeline: Timeline) -> None:
        """As a service manager would: what ends by itself, SQLite being locked for too long for one, starts again."""
        for part in self._airflow.parts.values():
            if not part.alive():
                timeline.say(f"{part.name} has ended by itself, see {part.log}")
                part.start()

    def _recovered(self) -> bool:
        for each in self._struck:
            each.look()
        return all(each.recovery is not None for each in self._struck)

    def _ended(self) -> bool:
        rows = self._airflow.task_instances() or []
        # A mapped task shows up as one row without a state until it is expanded.
        return len(rows) == len(self._work) and all(row["state"] in ("success", "failed") for row in rows)

    def _facts(self) -> Facts:
        rows = {f"{row['task_id']}/{row['map_index']}": row for row in self._airflow.task_instances() or []}
        return Facts(self._work, rows, self._seen, self._airflow.returned, self._airflow.outage_errors())

    def _parts(self) -> list[Part]:
        return [*self._airflow.parts.values(), *self._iris.parts.values()]


def _noting(call, failed: list[BaseException]) -> None:
    try:
        call()
    except Exception as error:
        failed.append(error)
