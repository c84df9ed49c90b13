"""A real Airflow: four processes, each of which can be killed, in a home of their own.

The database is SQLite in write-ahead mode. A killed process loses no committed transaction there, it is what Airflow
itself starts with, and it needs neither a server nor a driver that the package does not already install: the same
run works on a laptop and in CI.
"""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from parts import Part, free_port, plain_environment, until
from workload import DAG_ID, RUN_ID

_COMMANDS = {
    "api-server": ["api-server"],
    "dag-processor": ["dag-processor"],
    # Their log servers would take ports of all interfaces; logs are read from files here.
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
_START_SECONDS = 120
_FRESH_SECONDS = 1.0
_RUNNER = "airflow worker -- "
_EXECUTOR_WORKER = "airflow worker -- LocalExecutor"


class Airflow:
    def __init__(
        self, home: Path, connection: dict[str, Any], parallelism: int, others: dict[str, dict[str, Any]] | None = None
    ) -> None:
        """`connection` is Iris; `others` are further connections by name."""
        self.home = home
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        env = plain_environment(home) | _settings(home, port, parallelism)
        connections = {"iris_default": {"conn_type": "iris", **connection}, **(others or {})}
        env |= {f"AIRFLOW_CONN_{name.upper()}": json.dumps(value) for name, value in connections.items()}
        self.env = env
        self.parts = {
            name: Part(name, [sys.executable, "-m", "airflow", *arguments], env, home)
            for name, arguments in _COMMANDS.items()
        }
        self._answered_at = 0.0
        self._tries: dict[str, tuple[str, int]] = {}
        self._health: tuple[float, dict[str, Any]] = (0.0, {})
        self._rows: tuple[float, list[dict[str, Any]] | None] = (0.0, None)
        self._http = httpx.Client(base_url=self.url, timeout=20, trust_env=False)

    def start(self) -> None:
        with (self.home / "migrate.log").open("wb") as log:
            migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
            subprocess.run(migrate, env=self.env, stdout=log, stderr=subprocess.STDOUT, timeout=180, check=True)
        for part in self.parts.values():
            part.start()
        until(lambda: self._try(self._ready), _START_SECONDS, f"Airflow's parts and its DAG (logs in {self.home})")

    def second_triggerer(self) -> Part:
        """Not started yet."""
        first, name = self.parts["triggerer"], "triggerer-2"
        return self.parts.setdefault(name, first.twin(name))

    def start_run(self) -> None:
        self.ask("POST", f"/api/v2/dags/{DAG_ID}/dagRuns", json={"dag_run_id": RUN_ID, "logical_date": None})

    def task_instances(self) -> list[dict[str, Any]] | None:
        """None while the API server does not answer. Asked once a second at most: tasks need that server too."""
        if time.monotonic() - self._rows[0] > _FRESH_SECONDS:
            self._rows = (time.monotonic(), self._read_task_instances())
            self._tries |= {row["id"]: (row["task_id"], row["map_index"]) for row in self._rows[1] or []}
        return self._rows[1]

    def again(self, try_id: str, since: float) -> bool:
        """Whether, by what was read after `since`, the task instance of a try has ended, waits, or runs once more."""
        rows = self.task_instances()
        if rows is None or self._rows[0] < since:
            return False
        row = next((row for row in rows if (row["task_id"], row["map_index"]) == self._tries.get(try_id)), None)
        over = ("success", "failed", "deferred")
        return row is None or row["state"] in over or (row["id"] != try_id and row["state"] == "running")

    def outage_errors(self) -> list[str]:
        """Of tries that ended because Iris was away, from the task logs."""
        found = []
        for log in sorted(self.home.glob("logs/dag_id=*/**/attempt=*.log")):
            for line in log.read_text().splitlines():
                if "IrisUnavailableError" in line and "answer" in line and '"error_detail"' in line:
                    found.append(f"{log.relative_to(self.home)}: {json.loads(line)['error_detail'][0]['exc_value']}")
        return found

    def _read_task_instances(self) -> list[dict[str, Any]] | None:
        path = f"/api/v2/dags/{DAG_ID}/dagRuns/{RUN_ID}/taskInstances"
        return self._try(lambda: self.ask("GET", path, params={"limit": 500})["task_instances"])

    def returned(self, task_id: str, map_index: int) -> Any:
        path = f"/api/v2/dags/{DAG_ID}/dagRuns/{RUN_ID}/taskInstances/{task_id}/xcomEntries/return_value"
        parameters = {"map_index": map_index, "stringify": "false"}
        return (self._try(lambda: self.ask("GET", path, params=parameters)) or {}).get("value")

    def heartbeat(self, name: str) -> float:
        """When the scheduler or the triggerer last said that it lives; 0 for never."""
        if time.monotonic() - self._health[0] > _FRESH_SECONDS:
            self._health = (time.monotonic(), self._try(lambda: self.ask("GET", "/api/v2/monitor/health")) or {})
        health = self._health[1]
        said = health.get(name, {}).get(f"latest_{name}_heartbeat")
        return datetime.fromisoformat(said).timestamp() if said else 0.0

    def answers_since(self, moment: float) -> bool:
        """Whether the API server has answered after `moment` of the monotonic clock. Asks it."""
        self.heartbeat("scheduler")
        return self._answered_at > moment

    def runners(self) -> dict[str, psutil.Process]:
        """The processes that run tasks now, by the id of the task instance's try."""
        found = {}
        for process in self.parts["scheduler"].members():
            title = _title(process)
            if title.startswith(_RUNNER) and not title.startswith(_EXECUTOR_WORKER):
                found[title.removeprefix(_RUNNER).strip()] = process
        return found

    def stop(self) -> None:
        """kill -9 for all: what a clean stop does is not the subject, and it would wait for tasks."""
        for part in self.parts.values():
            part.end()
        self._http.close()

    def _ready(self) -> bool:
        health = self.ask("GET", "/api/v2/monitor/health")
        alive = all(health[name]["status"] == "healthy" for name in ("scheduler", "triggerer", "dag_processor"))
        return alive and self.ask("GET", f"/api/v2/dags/{DAG_ID}")["dag_id"] == DAG_ID

    def ask(self, method: str, path: str, **arguments: Any) -> Any:
        if "authorization" not in self._http.headers:
            reply = self._http.get("/auth/token").raise_for_status()
            self._http.headers["authorization"] = f"Bearer {reply.json()['access_token']}"
        reply = self._http.request(method, path, **arguments).raise_for_status().json()
        self._answered_at = time.monotonic()
        return reply

    def _try(self, ask: Any) -> Any:
        try:
            return ask()
        except (httpx.HTTPError, ValueError):
            return None


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _settings(home: Path, port: int, parallelism: int) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    settings = {
        ("core", "dags_folder"): home / "dags",
        ("core", "load_examples"): False,
        ("core", "executor"): "LocalExecutor",
        ("core", "parallelism"): parallelism,
        ("core", "dags_are_paused_at_creation"): False,
        ("core", "simple_auth_manager_all_admins"): True,
        ("core", "execution_api_server_url"): f"{url}/execution/",
        ("core", "fernet_key"): base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        ("api", "host"): "127.0.0.1",
        ("api", "port"): port,
        ("api", "base_url"): url,
        ("api", "secret_key"): secrets.token_hex(16),
        ("api_auth", "jwt_secret"): secrets.token_hex(32),
        ("database", "sql_alchemy_conn"): f"sqlite:///{home / 'airflow.db'}",
        ("usage_data_collection", "enabled"): False,
        ("dag_processor", "refresh_interval"): 5,
        # Without these a run would mostly wait for Airflow to notice that something is dead.
        ("scheduler", "task_instance_heartbeat_timeout"): 20,
        ("scheduler", "task_instance_heartbeat_timeout_detection_interval"): 5,
        ("scheduler", "scheduler_health_check_threshold"): 15,
        ("scheduler", "orphaned_tasks_check_interval"): 10,
        ("triggerer", "triggerer_health_check_threshold"): 15,
    }
    named = {f"AIRFLOW__{section}__{name}".upper(): str(value) for (section, name), value in settings.items()}
    return {"AIRFLOW_HOME": str(home), **named}
