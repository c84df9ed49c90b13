"""Which Iris a command talks to: an Airflow connection, or an address without Airflow."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from fray_airflow.cli.exits import CommandError

if TYPE_CHECKING:
    from fray_airflow.hooks.connection import Connection
    from fray_airflow.iris import IrisClient
    from fray_airflow.iris.options import ClientOptions

DEFAULT_CONNECTION = "iris_default"
TOKEN_VARIABLE = "FRAY_AIRFLOW_TOKEN"  # noqa: S105  # the name of a variable
PATIENCE = 3.0
"""Seconds in which a call without an answer is sent again: somebody waits at a prompt."""


def add_address(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("which Iris")
    either = group.add_mutually_exclusive_group()
    either.add_argument("--conn", metavar="CONN_ID", help=f"an Airflow connection (default: {DEFAULT_CONNECTION})")
    either.add_argument("--target", metavar="HOST:PORT", help="an address instead; needs no Airflow")
    group.add_argument("--as-user", metavar="NAME", help="with --target: who owns the jobs (default: airflow)")
    group.add_argument("--ca", metavar="FILE", help="with --target: certificates to trust, in PEM")
    group.add_argument("--log-target", metavar="HOST:PORT", help="with --target: the log service, if it is elsewhere")


def is_given(options: Namespace) -> bool:
    return bool(options.conn or options.target)


def client_for(options: Namespace, *, patience: float = PATIENCE) -> IrisClient:
    """Connects on first use. Raises CommandError and InvalidSpecError for what cannot be right before that."""
    from fray_airflow.iris import IrisClient

    return IrisClient(options_for(options, patience=patience))


def options_for(options: Namespace, *, patience: float = PATIENCE) -> ClientOptions:
    from fray_airflow.iris.options import client_options

    if options.target:
        return client_options(
            options.target,
            user=options.as_user or "airflow",
            token=os.environ.get(TOKEN_VARIABLE),
            ca=options.ca,
            log_target=options.log_target,
            patience=patience,
        )
    if extra := [name for name in ("as_user", "ca", "log_target") if getattr(options, name)]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in extra)
        raise CommandError(f"{named}: only with --target; a connection says it itself")
    return connection_options(read_connection(options.conn or DEFAULT_CONNECTION), patience=patience)


def connection_options(conn: Connection, *, patience: float = PATIENCE) -> ClientOptions:
    """Raises InvalidSpecError that names every fault of the connection."""
    from fray_airflow.hooks.connection import parse_connection
    from fray_airflow.iris.options import client_options

    settings = parse_connection(conn)
    arguments: dict[str, Any] = {**settings.arguments, "patience": patience}
    return client_options(settings.host, **arguments)


def read_connection(conn_id: str) -> Connection:
    """From the environment, the secrets backends or the database, as Airflow's own commands do."""
    # Airflow logs to stdout, where a command's own output goes.
    with redirect_stdout(sys.stderr):
        from airflow.models.connection import Connection as Stored
        from airflow.sdk.exceptions import AirflowNotFoundException

        try:
            found: Connection = Stored.get_connection_from_secrets(conn_id)
        except AirflowNotFoundException:
            raise CommandError(
                f"Airflow has no connection {conn_id!r}. Make one of type Iris in the UI, or set "
                f"AIRFLOW_CONN_{conn_id.upper()}; or name an address with --target HOST:PORT."
            ) from None
    return found
