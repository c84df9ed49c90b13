"""`fray-airflow doctor`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from fray_airflow.cli.address import DEFAULT_CONNECTION, add_address, connection_options, options_for, read_connection
from fray_airflow.cli.checkup import TIMEOUT, Checkup, Finding
from fray_airflow.cli.command import add_command
from fray_airflow.cli.exits import CommandError, Exit
from fray_airflow.cli.output import show, show_json, show_table
from fray_airflow.errors import InvalidSpecError

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands
    from fray_airflow.iris.options import ClientOptions


def add(commands: Commands) -> None:
    parser = add_command(commands, "doctor", run, "check a connection to Iris, step by step")
    add_address(parser)


def run(options: Namespace) -> int:
    findings = list(_findings(options))
    failed = any(finding.result == "failed" for finding in findings)
    if options.json:
        show_json({"well": not failed, "findings": [asdict(finding) for finding in findings]})
    else:
        show_table(("step", "result", "found"), [(each.step, each.result, each.text) for each in findings])
        for finding in findings:
            if finding.advice:
                show(f"\n{finding.step}: {finding.advice}")
    return Exit.NO if failed else Exit.DONE


def _findings(options: Namespace) -> Iterator[Finding]:
    from fray_airflow.iris import IrisClient

    client_options: ClientOptions
    if options.target:
        client_options = options_for(options, patience=0)
    else:
        conn_id = options.conn or DEFAULT_CONNECTION
        try:
            conn = read_connection(conn_id)
        except CommandError as error:
            yield Finding("connection", "failed", f"there is no {conn_id!r}", str(error))
            return
        yield Finding("connection", "ok", f"{conn_id} found")
        try:
            client_options = connection_options(conn, patience=0)
        except InvalidSpecError as error:
            yield Finding(
                "fields", "failed", "; ".join(error.faults), "Correct the connection; see docs/connections.md."
            )
            return
        yield Finding("fields", "ok", f"address {client_options.target}, user {client_options.user}")
    client_options = replace(client_options, timeout=TIMEOUT)
    with IrisClient(client_options) as client:
        yield from Checkup(client_options, client).findings()
