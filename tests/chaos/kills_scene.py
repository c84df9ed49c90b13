"""What the scenarios of kills.py look at: Airflow by its REST API, database and log files, Iris by its own answers."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from airflow_parts import Airflow
from cryptography.fernet import Fernet
from iris_parts import LocalIrisParts
from kills_dag import Victim
from parts import Part, plain_environment
from sightings import Job, Sightings
from workload import DAG_ID, RUN_ID

_RUN = f"/api/v2/dags/{DAG_ID}/dagRuns/{RUN_ID}/taskInstances"


class CountedIrisParts(LocalIrisParts):
    """The embedded Iris; its log has every TerminateJob."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        program = Path(__file__).with_name("counted_iris.py")
        argv = [sys.executable, str(program), "--port", str(self.port), "--fleet", "fleet.json"]
        self.parts = {"iris": Part("iris", argv, plain_environment(folder), folder)}

    def terminations(self, job_id: str) -> list[bool]:
        """Of each TerminateJob of a job, whether the job was live then."""
        lines = [line for line in self.parts["iris"].log.read_text().splitlines() if line.startswith('{"terminated"')]
        return [said["live"] for said in map(json.loads, lines) if said["terminated"] == job_id]


class Scene:
    def __init__(self, airflow: Airflow, iris: CountedIrisParts, seen: Sightings) -> None:
        self.airflow, self.iris, self.seen = airflow, iris, seen
        self._stall, self._stalled = threading.Lock(), 0

    def row(self, victim: Victim) -> dict[str, Any]:
        return next((row for row in self.airflow.task_instances() or [] if row["task_id"] == victim.task_id), {})

    def jobs(self, victim: Victim) -> list[Job]:
        return self.seen.of(victim.key)

    def mark(self, victim: Victim, state: str) -> None:
        self._insist("PATCH", f"{_RUN}/{victim.task_id}", json={"new_state": state})

    def clear(self, victim: Victim) -> None:
        body = {"dry_run": False, "only_failed": False, "dag_run_id": RUN_ID, "task_ids": [victim.task_id]}
        self._insist("POST", f"/api/v2/dags/{DAG_ID}/clearTaskInstances", json=body)

    def _insist(self, method: str, path: str, **arguments: Any) -> None:
        """Asks again after a 500, as a person would. SQLite has one writer at a time, and Airflow writes its audit log
        on the event loop, where the commit of another request may wait: then one of the two gives up after 5 s."""
        for tries_left in (2, 1, 0):
            try:
                self.airflow.ask(method, path, **arguments)
                return
            except httpx.HTTPStatusError as error:
                if error.response.status_code != 500 or not tries_left:
                    raise

    def release(self, victim: Victim) -> None:
        """Lets a late task start."""
        self.airflow.ask("POST", "/api/v2/pools", json={"name": victim.task_id, "slots": 1})

    @contextlib.contextmanager
    def triggerer_stalled(self) -> Iterator[None]:
        """SIGSTOP for all its processes. Several may be in here at once: the last one to leave lets it go on."""
        with self._stall:
            if not self._stalled:
                _send(self.airflow.parts["triggerer"], signal.SIGSTOP)
            self._stalled += 1
        try:
            yield
        finally:
            with self._stall:
                self._stalled -= 1
                if not self._stalled:
                    _send(self.airflow.parts["triggerer"], signal.SIGCONT)

    def link(self, victim: Victim) -> str | None:
        links = self.airflow.ask("GET", f"{_RUN}/{victim.task_id}/links")
        return links["extra_links"].get("Iris job")

    def rendered_fields(self, victim: Victim) -> str:
        """Lists of task instances leave them out."""
        return str(self.airflow.ask("GET", f"{_RUN}/{victim.task_id}")["rendered_fields"])

    def xcoms(self, victim: Victim) -> dict[str, Any]:
        path = f"{_RUN}/{victim.task_id}/xcomEntries"
        keys = [entry["key"] for entry in self.airflow.ask("GET", path)["xcom_entries"]]
        return {key: self.airflow.ask("GET", f"{path}/{key}")["value"] for key in keys}

    def shown_log(self, victim: Victim) -> str:
        """What the log page of the current try shows."""
        path = f"{_RUN}/{victim.task_id}/logs/{self.row(victim)['try_number']}"
        return json.dumps(self.airflow.ask("GET", path, params={"full_content": True}))

    def log(self, victim: Victim) -> list[str]:
        """The lines of all tries, workers and triggerers, in the order of their times."""
        found = []
        for path in self.airflow.home.glob(f"logs/dag_id=*/**/task_id={victim.task_id}/**/attempt=*.log*"):
            found += [line for line in path.read_text().splitlines() if line.startswith("{")]
        said = [(entry.get("timestamp", ""), entry) for entry in map(json.loads, found)]
        return [f"{at[11:19]} {entry.get('level', '')} {entry.get('event')}" for at, entry in sorted(said, key=_at)]

    def trigger_row(self, victim: Victim) -> str:
        """The trigger's arguments as the triggerer reads them. Airflow keeps them in plain text or encrypted."""
        with sqlite3.connect(f"file:{self.airflow.home / 'airflow.db'}?mode=ro", uri=True, timeout=20) as database:
            found = database.execute(
                "select kwargs from trigger join task_instance on trigger_id = trigger.id where task_id = ?",
                [victim.task_id],
            ).fetchone()
        if found[0].startswith("{"):
            return found[0]
        return Fernet(self.airflow.env["AIRFLOW__CORE__FERNET_KEY"]).decrypt(found[0].encode()).decode()

    def files_with(self, text: bytes) -> list[str]:
        """All that Airflow has written: the database, logs, its programs' output."""
        files = [path for path in self.airflow.home.rglob("*") if path.is_file()]
        return [str(path.relative_to(self.airflow.home)) for path in files if text in path.read_bytes()]


def _send(part: Part, sent: signal.Signals) -> None:
    for process in part.members():
        process.send_signal(sent)


def _at(said: tuple[str, Any]) -> str:
    return said[0]
