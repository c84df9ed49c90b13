"""`fray-airflow cancel`."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from fray_airflow.cli.address import add_address, client_for
from fray_airflow.cli.command import add_command
from fray_airflow.cli.exits import CommandError, Exit, exit_of
from fray_airflow.cli.job_ids import JOB_HELP, job_id_of
from fray_airflow.cli.output import say, show, show_json
from fray_airflow.errors import IrisError, JobNotFoundError

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands
    from fray_airflow.iris import IrisClient

_UNKNOWN = "unknown"
_CANCELLED = "cancelled"


def add(commands: Commands) -> None:
    parser = add_command(commands, "cancel", run, "end jobs")
    parser.add_argument("jobs", nargs="+", metavar="JOB", help=JOB_HELP)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_address(parser)


def run(options: Namespace) -> int:
    """All jobs that can be ended are, also when others are unknown or finished."""
    with client_for(options) as client:
        found = {job_id: _state(client, job_id) for job_id in (job_id_of(text, client) for text in options.jobs)}
        active = [job_id for job_id, state in found.items() if state == ""]
        if active and not options.yes and not _agrees(active):
            say("Nothing was cancelled.")
            return Exit.NO
        failures = []
        for job_id in active:
            try:
                client.terminate(job_id)
                found[job_id] = _CANCELLED
            except IrisError as error:
                failures.append(error)
                found[job_id] = f"not cancelled: {error}"
    if options.json:
        show_json([{"job_id": job_id, "result": result} for job_id, result in found.items()])
    else:
        for job_id, result in found.items():
            show(_sentence(job_id, result))
    if failures:
        return exit_of(failures[0])
    if _UNKNOWN in found.values():
        return Exit.UNKNOWN_JOB
    return Exit.DONE if len(active) == len(found) else Exit.FINISHED_JOB


def _state(client: IrisClient, job_id: str) -> str:
    """ "" for a job that can be ended."""
    try:
        state = client.job_status(job_id).state
    except JobNotFoundError:
        return _UNKNOWN
    return state.name if state.finished else ""


def _sentence(job_id: str, result: str) -> str:
    if result == _CANCELLED:
        return f"{job_id} is cancelled. Its machines are free in some seconds."
    if result.startswith("not"):
        return f"{job_id} is {result}"
    if result == _UNKNOWN:
        return f"{job_id} is unknown: never submitted there, or ended more than 7 days ago."
    return f"{job_id} has finished before: {result}."


def _agrees(job_ids: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise CommandError("there is nobody to ask; say --yes to cancel without asking")
    what = job_ids[0] if len(job_ids) == 1 else f"{len(job_ids)} jobs ({', '.join(job_ids)})"
    sys.stderr.write(f"Cancel {what}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
