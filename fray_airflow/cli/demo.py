"""`fray-airflow demo`."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from fray_airflow.cli.command import add_command

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands


def add(commands: Commands) -> None:
    summary = "run a training pipeline in real Airflow, on an Iris of its own, and show what happens"
    parser = add_command(commands, "demo", run, summary, json=False)
    parser.add_argument("--iris", metavar="ADDRESS", help="a running Iris instead")
    parser.add_argument("--dag", metavar="FILE", help="another DAG file")


def run(options: Namespace) -> int:
    from fray_airflow.demo.__main__ import main

    given = {"--iris": options.iris, "--dag": options.dag}
    return main([word for name, value in given.items() if value is not None for word in (name, value)])
