"""`fray-airflow logs`."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fray_airflow.cli.address import PATIENCE, add_address, client_for
from fray_airflow.cli.command import add_command
from fray_airflow.cli.exits import CommandError, Exit
from fray_airflow.cli.job_ids import JOB_HELP, job_id_of
from fray_airflow.cli.output import say, show, show_json
from fray_airflow.log_text import readable
from fray_airflow.logs import LogCursor, LogLine
from fray_airflow.states import JobState

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands
    from fray_airflow.iris import IrisClient
    from fray_airflow.status import JobStatus

FOLLOW_PATIENCE = 60.0
"""Seconds without an answer that following outlives: a controller that restarts."""

LATE_SECONDS = 2.5
"""Lines arrive up to 2 s after they were written, also those of a job that has ended."""

_POLL_SECONDS = 1.0


def add(commands: Commands) -> None:
    parser = add_command(commands, "logs", run, "print what a job has written")
    parser.add_argument("job", metavar="JOB", help=JOB_HELP)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the job ends; then 1 if it failed")
    parser.add_argument("--replica", type=int, metavar="N", help="only this one's, from 0 on")
    add_address(parser)


def run(options: Namespace) -> int:
    with client_for(options, patience=FOLLOW_PATIENCE if options.follow else PATIENCE) as client:
        job_id = job_id_of(options.job, client)
        job = client.job_status(job_id)
        if options.replica is not None and not 0 <= options.replica < job.task_count:
            raise CommandError(f"--replica {options.replica}: {job_id} has replicas 0 to {job.task_count - 1}")
        replicas = () if options.replica is None else (options.replica,)
        lines = _follow(client, job, replicas) if options.follow else _pages(client, _Place(job), replicas)
        several = job.task_count > 1 and options.replica is None
        for line in lines:
            _print(line, several=several, as_json=options.json)
        if not options.follow:
            return Exit.DONE
        end = client.job_status(job_id)
    say(f"{job_id} {end.state}{f': {end.error}' if end.error else ''}")
    return Exit.DONE if end.state is JobState.SUCCEEDED else Exit.NO


class _Place:
    """How far a job has been read. Lines of an earlier job of the same name are left out."""

    def __init__(self, job: JobStatus) -> None:
        submitted = job.submitted_at
        self.cursor = LogCursor(job.job_id, round(submitted.timestamp() * 1000) if submitted else 0)


def _pages(client: IrisClient, place: _Place, replicas: tuple[int, ...]) -> Iterator[LogLine]:
    full = True
    while full:
        page = client.logs(place.cursor.job_id, place.cursor, replicas=replicas)
        yield from page.lines
        place.cursor, full = page.cursor, page.full


def _follow(client: IrisClient, job: JobStatus, replicas: tuple[int, ...]) -> Iterator[LogLine]:
    place, ended = _Place(job), None
    while ended is None or time.monotonic() < ended + LATE_SECONDS:
        yield from _pages(client, place, replicas)
        if ended is None and client.job_status(job.job_id).state.finished:
            # One that ended long ago has no late lines, but whose clock would tell?
            ended = time.monotonic()
        time.sleep(_POLL_SECONDS)
    yield from _pages(client, place, replicas)


def _print(line: LogLine, *, several: bool, as_json: bool) -> None:
    if as_json:
        show_json(_plain(line), one_line=True)
        return
    for text in readable(line.text):
        show(f"{line.prefix} {text}" if several else text)


def _plain(line: LogLine) -> dict[str, Any]:
    return {
        "replica": line.replica,
        "attempt": line.attempt,
        "at": line.at.isoformat() if line.at else None,
        "source": line.source,
        "level": line.level,
        "text": line.text,
    }
