"""Runs the services of docker-compose.yml as plain processes, then three DAGs on them. Needs PostgreSQL's programs.

Commands, environment, health checks and the order of starting are those of the file. What an engine would do is done
here: the names of services lead to loopback, the folders of a container to a temporary one, and PostgreSQL, whose image
sets it up from the environment, is set up by hand.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

ROOT = Path(__file__).resolve().parents[2]
DAGS = ("cpu_hello", "taskflow", "train_pipeline")
"""A command, functions, and a pipeline whose training waits in the triggerer."""

DAG_SECONDS = 300
_POLL_SECONDS = 1.0
_API = "http://127.0.0.1:8080"


class Services:
    """Those of the file, started one after the other in `folder`."""

    def __init__(self, services: Mapping[str, dict[str, Any]], folder: Path) -> None:
        self._services = services
        self._folder = folder
        self._names = sorted(services, key=len, reverse=True)
        (folder / "airflow").mkdir()
        (folder / "airflow" / "dags").symlink_to(ROOT / "dags")

    def here(self, text: str) -> str:
        """What a value of the file means outside of a container."""
        text = re.sub(rf"(?<=[/@])({'|'.join(self._names)})(?=[:/\"])", "127.0.0.1", text)
        text = text.replace("/opt/airflow", str(self._folder / "airflow")).replace("/opt/fray-airflow", str(ROOT))
        return text.replace("0.0.0.0", "127.0.0.1")  # noqa: S104  # it is taken away here

    def environment(self, name: str) -> dict[str, str]:
        scripts = sysconfig.get_path("scripts")
        return {
            "PATH": f"{scripts}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self._folder),
            "TMPDIR": str(self._folder),
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "no_proxy": "*",
            # It listens on all interfaces by default, as it has to in a container.
            "AIRFLOW__API__HOST": "127.0.0.1",
            **{key: self.here(value) for key, value in self._services[name].get("environment", {}).items()},
        }

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Until it is healthy, or for one that has no health check, until it has ended well."""
        say(f"starting {name}")
        service, output = self._services[name], self._folder / f"{name}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [self.here(word) for word in service["command"]],
                cwd=self._folder,
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            if "healthcheck" in service:
                until(f"{name} is healthy", 120, lambda: self._healthy(name, process, output))
            elif process.wait(120):
                raise SystemExit(f"{name} ended with {process.returncode}:\n{output.read_text()[-4000:]}")
            yield
        finally:
            stop(process)

    def _healthy(self, name: str, process: subprocess.Popen[bytes], output: Path) -> bool:
        if process.poll() is not None:
            raise SystemExit(f"{name} ended with {process.returncode}:\n{output.read_text()[-4000:]}")
        _, *words = self._services[name]["healthcheck"]["test"]
        check = subprocess.run(
            [self.here(word) for word in words],
            cwd=self._folder,
            env=self.environment(name),
            capture_output=True,
            timeout=60,
        )
        return check.returncode == 0


@contextlib.contextmanager
def postgres(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """As the image starts it. It refuses to run as root, so that root starts it as the user that Debian has for it."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("initdb") or (programs and str(programs[-1] / "initdb"))
    if not found:
        raise SystemExit("PostgreSQL is not on this machine: there is no initdb, neither on PATH nor in /usr/lib.")
    say("starting postgres")
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    data, binaries = folder / "postgres", Path(found).resolve().parent
    data.mkdir()
    if user:
        shutil.chown(data, "postgres", "postgres")
    name, auth = environment["POSTGRES_USER"], environment["POSTGRES_HOST_AUTH_METHOD"]
    initdb = [found, f"--pgdata={data}", f"--auth={auth}", f"--username={name}"]
    subprocess.run(initdb, check=True, cwd=data, stdout=subprocess.DEVNULL, **user)
    server = [str(binaries / "postgres"), "-D", str(data), "-k", str(data), "-c", "listen_addresses=127.0.0.1"]
    with (folder / "postgres.log").open("wb") as file:
        process = subprocess.Popen(server, cwd=data, stdout=file, stderr=file, start_new_session=True, **user)
    try:
        ready = [str(binaries / "pg_isready"), "--host=127.0.0.1", f"--username={name}"]
        until("postgres is healthy", 60, lambda: subprocess.run(ready, stdout=subprocess.DEVNULL).returncode == 0)
        createdb = [str(binaries / "createdb"), "--host=127.0.0.1", f"--username={name}", environment["POSTGRES_DB"]]
        subprocess.run(createdb, check=True)
        yield
    finally:
        stop(process)


def run_dag(dag_id: str) -> str:
    """The state that its run ends in, over Airflow's REST API, as a user's script would."""
    with httpx.Client(base_url=_API, trust_env=False, timeout=30) as api:
        api.headers["Authorization"] = f"Bearer {api.get('/auth/token').json()['access_token']}"
        until(f"{dag_id} is known", 120, lambda: api.get(f"/api/v2/dags/{dag_id}").status_code == 200)
        api.patch(f"/api/v2/dags/{dag_id}", json={"is_paused": False}).raise_for_status()
        run = api.post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None}).raise_for_status().json()
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run['dag_run_id']}"
        state = until(
            f"{dag_id} has ended",
            DAG_SECONDS,
            lambda: (now := api.get(path).raise_for_status().json()["state"]) in ("success", "failed") and now,
        )
        for task in api.get(f"{path}/taskInstances").raise_for_status().json()["task_instances"]:
            say(f"  {task['task_id']}: {task['state']} in {task['duration'] or 0:.1f} s")
            if task["state"] == "failed":
                log = api.get(f"{path}/taskInstances/{task['task_id']}/logs/{task['try_number']}")
                print(*(event["event"] for event in log.json()["content"][-30:]), sep="\n")
    return state


def until(what: str, seconds: float, look: Callable[[], Any]) -> Any:
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise SystemExit(f"After {seconds} s it is still not so that {what}.")
        time.sleep(_POLL_SECONDS)
    return found


def stop(process: subprocess.Popen[bytes]) -> None:
    """As an engine does it: SIGTERM, and after a while SIGKILL, to all that it started."""
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> int:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for port in (5432, 8080, 10000, 10001, 10002):
        with socket.socket() as probe:
            if not probe.connect_ex(("127.0.0.1", port)):
                raise SystemExit(f"Something listens on port {port}, which docker-compose.yml wants. Stop it first.")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compose-", ignore_cleanup_errors=True)))
        # PostgreSQL may run as another user.
        folder.chmod(0o755)
        stack.enter_context(postgres(folder, services["postgres"]["environment"]))
        here = Services(services, folder)
        for name in ("airflow-init", "iris", "iris-local", "api-server", "dag-processor", "scheduler", "triggerer"):
            stack.enter_context(here.running(name))
        states = {}
        for dag_id in DAGS:
            say(f"running {dag_id}")
            states[dag_id] = run_dag(dag_id)
            say(f"{dag_id}: {states[dag_id]}")
        return int(set(states.values()) != {"success"})


if __name__ == "__main__":
    sys.exit(main())
