"""`airflow standalone` in a home of its own, and a second API server beside it with other rights."""

import base64
import json
import os
import secrets
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import httpx
from parts import Part, free_port, plain_environment, until

HERE = Path(__file__).parent
START_SECONDS = 240
PASSWORDS = {"admin": "admin-word", "vera": "vera-word", "uma": "uma-word"}


class UiAirflow:
    """`iris` is the target that the connection `iris_default` leads to."""

    def __init__(self, home: Path, iris: str, dashboard_url: str) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{free_port()}"
        self.guarded_url = f"http://127.0.0.1:{free_port()}"
        (home / "dags").mkdir(parents=True)
        shutil.copy(HERE / "ui_dags.py", home / "dags")
        (home / "simple_auth_manager_passwords.json.generated").write_text(json.dumps(PASSWORDS))
        connection = {"conn_type": "iris", "host": iris, "extra": {"dashboard_url": dashboard_url}}
        env = plain_environment(home) | _settings(home)
        env |= {"AIRFLOW_CONN_IRIS_DEFAULT": json.dumps(connection), "PYTHONPATH": f"{HERE}:{HERE.parents[1]}"}
        # It calls the command by its name.
        env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
        own = env | {"AIRFLOW__CORE__AUTH_MANAGER": "ui_auth.UiAuthManager"}
        self._standalone = Part("standalone", _airflow("standalone"), env | _address(self.url), home)
        self._guarded = Part("guarded", _airflow("api-server"), own | _address(self.guarded_url), home)

    def start(self) -> None:
        self._standalone.start()
        until(self._healthy, START_SECONDS, f"airflow standalone (logs in {self.home})")

    def start_guarded(self) -> None:
        """Slow as well, so only for those who ask for it."""
        self._guarded.start()
        until(lambda: _answers(self.guarded_url), START_SECONDS, f"a second API server (logs in {self.home})")

    def stop(self) -> None:
        """SIGINT, to the parent only: it ends its parts in order. Whatever is left after that is killed."""
        if self._standalone.alive():
            os.kill(self._standalone.pid, signal.SIGINT)
            with suppress(TimeoutError):
                until(lambda: not self._standalone.alive(), 30, "the end of airflow standalone")
        self._guarded.end()
        self._standalone.end()

    def token(self, user: str = "admin") -> str:
        reply = httpx.post(
            f"{self.url}/auth/token", json={"username": user, "password": PASSWORDS[user]}, timeout=30, trust_env=False
        )
        return reply.raise_for_status().json()["access_token"]

    def client(self, user: str = "", *, guarded: bool = False) -> httpx.Client:
        """Without `user`, without a session."""
        headers = {"authorization": f"Bearer {self.token(user)}"} if user else {}
        base = self.guarded_url if guarded else self.url
        return httpx.Client(base_url=base, headers=headers, timeout=30, trust_env=False)

    def run(self, dag_id: str) -> None:
        """A run `shown` of a DAG."""
        with self.client("admin") as client:
            body = {"dag_run_id": "shown", "logical_date": None}
            until(
                lambda: client.post(f"/api/v2/dags/{dag_id}/dagRuns", json=body).status_code in (200, 201, 409),
                60,
                dag_id,
            )

    def _healthy(self) -> bool:
        with suppress(httpx.HTTPError):
            health = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=20, trust_env=False).json()
            if all(health[part]["status"] == "healthy" for part in ("scheduler", "triggerer", "dag_processor")):
                with self.client("admin") as client:
                    return client.get("/api/v2/dags/training").status_code == 200
        return False


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/api/v2/version", timeout=20, trust_env=False).status_code == 200
    return False


def _airflow(*arguments: str) -> list[str]:
    # A shell that runs tests in the background may have made its children deaf to SIGINT.
    listen = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", listen, sys.executable, "-m", "airflow", *arguments]


def _address(url: str) -> dict[str, str]:
    return {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": url.rpartition(":")[2],
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
    }


def _settings(home: Path) -> dict[str, str]:
    settings = {
        ("core", "dags_folder"): home / "dags",
        ("core", "load_examples"): False,
        ("core", "parallelism"): 8,
        ("core", "dags_are_paused_at_creation"): False,
        ("core", "simple_auth_manager_users"): "admin:admin,vera:viewer,uma:viewer",
        ("core", "fernet_key"): base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        ("core", "test_connection"): "Enabled",
        ("api", "secret_key"): secrets.token_hex(16),
        ("api_auth", "jwt_secret"): secrets.token_hex(32),
        ("database", "sql_alchemy_conn"): f"sqlite:///{home / 'airflow.db'}",
        ("usage_data_collection", "enabled"): False,
        ("logging", "worker_log_server_port"): free_port(),
        ("logging", "trigger_log_server_port"): free_port(),
    }
    named = {f"AIRFLOW__{section}__{name}".upper(): str(value) for (section, name), value in settings.items()}
    return {"AIRFLOW_HOME": str(home), **named}
