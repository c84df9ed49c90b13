"""`fray-airflow jobs`."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fray_airflow.cli.address import add_address, client_for
from fray_airflow.cli.command import add_command
from fray_airflow.cli.exits import Exit
from fray_airflow.cli.output import say, show_json, show_table
from fray_airflow.states import JobState

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands
    from fray_airflow.status import JobStatus

MAX_LIMIT = 500
"""Iris refuses to list more at once."""

_STATES = [state.name.lower() for state in JobState if state is not JobState.UNSPECIFIED]


def add(commands: Commands) -> None:
    parser = add_command(commands, "jobs", run, "list jobs, newest first")
    parser.add_argument("--user", metavar="NAME", help="only this user's")
    parser.add_argument("--prefix", metavar="TEXT", help="only names that start with this; with a / whole job ids")
    parser.add_argument("--state", choices=_STATES, metavar="STATE", help=f"only these: {', '.join(_STATES)}")
    parser.add_argument("--limit", type=_limit, default=50, metavar="N", help=f"at most {MAX_LIMIT} (default: 50)")
    add_address(parser)


def run(options: Namespace) -> int:
    from fray_airflow.iris import operations

    with client_for(options) as client:
        prefix = options.prefix or ""
        if not prefix.startswith("/"):
            owner = options.user or (client.user() if prefix else "")
            prefix = f"/{owner}/{prefix}" if owner else ""
        elif options.user and not prefix.startswith(f"/{options.user}/"):
            prefix = f"/{options.user}/{prefix.removeprefix('/')}"
        jobs = client.run(operations.jobs("", options.state or "", options.limit, prefix=prefix))
    if options.json:
        show_json([_plain(job) for job in jobs])
    elif jobs:
        show_table(("job", "state", "replicas", "submitted", "why"), map(_row, jobs))
        if len(jobs) == options.limit:
            say(f"These are the newest {options.limit}; there may be more (--limit, --state, --prefix).")
    else:
        say("No jobs.")
    return Exit.DONE


def _row(job: JobStatus) -> tuple[str, ...]:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(job.task_state_counts.items()))
    submitted = job.submitted_at.astimezone().strftime("%Y-%m-%d %H:%M:%S") if job.submitted_at else ""
    return (
        job.job_id,
        job.state.name,
        counts,
        submitted,
        job.error or ("" if job.state.finished else job.pending_reason),
    )


def _plain(job: JobStatus) -> dict[str, Any]:
    names = ("job_id", "state", "submitted_at", "started_at", "finished_at", "task_count", "task_state_counts")
    facts = asdict(job)
    plain = {name: facts[name] for name in (*names, "failure_count", "preemption_count", "error", "pending_reason")}
    times = {name: value.isoformat() for name, value in plain.items() if isinstance(value, datetime)}
    return {**plain, **times, "state": job.state.name}


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LIMIT:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MAX_LIMIT}")
    return int(text)
