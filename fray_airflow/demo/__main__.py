"""`python -m fray_airflow.demo`: starts what it needs, runs the example pipeline, shows it, and cleans up."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from fray_airflow.demo.display import Display
from fray_airflow.errors import IrisError
from fray_airflow.iris import IrisClient
from fray_airflow.testing.airflow import airflow_environment, iris_connection

POLL_SECONDS = 0.3


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fray_airflow.demo", description=__doc__)
    parser.add_argument("--iris", metavar="ADDRESS", help="a running Iris instead of the embedded one")
    parser.add_argument("--dag", type=Path, default=_dags() / "train_pipeline.py", help="the DAG file to run")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    home = Path(tempfile.mkdtemp(prefix="fray-airflow-demo-"))
    with _iris(options.iris, home) as address, IrisClient(address) as client:
        console.print(f"[bold]Iris[/] at {address}, [bold]Airflow[/] in {home}")
        Display(console, client).show_fleet()
        return _run(console, client, address, options.dag, home)


def _run(console: Console, client: IrisClient, address: str, dag_file: Path, home: Path) -> int:
    display, log_file, results = Display(console, client), home / "airflow.log", home / "results.json"
    environment = {**os.environ, **airflow_environment(home, {"iris_default": iris_connection(address)})}
    console.print(f"Airflow runs {dag_file.name}; its own log goes to {log_file}\n", soft_wrap=True)
    command = [sys.executable, "-m", "fray_airflow.demo.run_dag", str(dag_file), str(results)]
    with log_file.open("w") as log, _child(command, log, environment) as child:
        while child.poll() is None:
            _look(display, console)
            time.sleep(POLL_SECONDS)
        _look(display, console)
    if results.exists():
        display.show_results(json.loads(results.read_text()))
    if child.returncode:
        console.print(f"[red]The DAG did not succeed.[/] The end of {log_file}:")
        console.print("\n".join(log_file.read_text().splitlines()[-20:]), markup=False, soft_wrap=True)
    return child.returncode


def _look(display: Display, console: Console) -> None:
    try:
        display.update()
    except IrisError as error:
        console.print(str(error), style="yellow", markup=False)


@contextmanager
def _iris(address: str | None, home: Path) -> Iterator[str]:
    """The address of the Iris that was given, else of an embedded one in a process of its own."""
    if address is not None:
        yield address
        return
    command = [sys.executable, "-m", "fray_airflow.local", "--die-with-parent"]
    with (home / "iris.log").open("w") as log, _child(command, subprocess.PIPE, dict(os.environ), log) as child:
        line = child.stdout.readline() if child.stdout else ""
        if not line:
            raise SystemExit(f"The embedded Iris did not start; see {home / 'iris.log'}")
        yield json.loads(line)["target"]


@contextmanager
def _child(
    command: list[str], stdout: object, environment: dict[str, str], stderr: object = subprocess.STDOUT
) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block, whatever happens in it."""
    # In a session of its own, Ctrl-C reaches it from here and not twice.
    child = subprocess.Popen(
        command,
        stdout=stdout,  # type: ignore[call-overload]  # a file or PIPE
        stderr=stderr,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait(15)


def _dags() -> Path:
    """The example DAGs: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).parent.parent
    installed = package / "example_dags"
    return installed if installed.exists() else package.parent / "dags"


if __name__ == "__main__":
    sys.exit(main())
