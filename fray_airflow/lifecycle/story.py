"""A launch told in log lines: what changed between two states of knowledge, and nothing twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from fray_airflow.lifecycle.seen import SETBACK, Seen
from fray_airflow.states import JobState

Line = tuple[int, str]
"""A logging level and a text."""


def story(before: Seen, after: Seen) -> Iterator[Line]:
    """The lines for the step from `before` to `after`."""
    if after.round != before.round and after.passed != before.passed:
        yield from _told_of_round(before, after)
        return
    if after.job_id and after.job_id != before.job_id:
        yield logging.INFO, f"{'Adopted' if after.adopted else 'Submitted'} {after.job_id}"
    if after.away_since and not before.away_since:
        goes_on = "The job is not affected; watching goes on." if after.job_id else "Submission is tried again."
        yield logging.WARNING, f"Iris does not answer. {goes_on}"
    if before.away_since and not after.away_since:
        yield logging.INFO, "Iris answers again."
    yield from _told_of_placement(before, after)
    yield from _told_of_attempts(before, after)
    yield from _told_of_state(before, after)
    if after.advice and after.advice != before.advice:
        yield logging.WARNING, after.advice
    if after.stop is not before.stop and after.stop is not None:
        yield logging.WARNING, f"Terminating {after.job_id}: {after.stop}."
    yield from _told_of_bands(before, after)


def _told_of_round(before: Seen, after: Seen) -> Iterator[Line]:
    """Why a launch came to nothing, and what is tried next."""
    what = "The next choice" if after.round.rung != before.round.rung else "All slices again"
    when = f", not before {after.not_before:%H:%M:%S %Z}" if after.not_before else ""
    yield logging.WARNING, f"{before.job_id or 'The last choice'}: {after.passed[-1]}. {what}{when}."


def _told_of_bands(before: Seen, after: Seen) -> Iterator[Line]:
    """A user whose budget is spent gets BATCH for what comes next, and then any other user's first job preempts it.

    The request's echo does not tell: it says what was asked for.
    """
    status = after.status
    if status is None or not after.bands or before.bands is not None:
        return
    asked = {each.job_id: each.band for each in status.slices}
    lower = [number for number, job in enumerate(asked) if after.bands.get(job) == "batch" != asked[job]]
    if lower:
        which = f"slice{'s' if len(lower) > 1 else ''} {', '.join(map(str, lower))}"
        yield (
            logging.WARNING,
            f"Iris runs {which} in the band batch instead of {status.slices[lower[0]].band}: this user's budget is "
            "spent. Jobs of others may preempt what is in batch, and then all slices start again. Ask for a larger "
            "budget (SetUserBudget), or for fewer slices.",
        )


def _told_of_state(before: Seen, after: Seen) -> Iterator[Line]:
    status, old = after.status, before.status
    if status is None or (old is not None and (old.state, old.pending_reason) == (status.state, status.pending_reason)):
        return
    if status.state is JobState.PENDING:
        yield logging.INFO, f"PENDING: {' '.join(status.pending_reason.split()) or 'no reason given yet'}"
    elif old is None or old.state is not status.state:
        yield logging.INFO, f"{status.state}{_counted(status.task_state_counts)}"


def _told_of_placement(before: Seen, after: Seen) -> Iterator[Line]:
    if after.placed_at and not before.placed_at:
        waited = f" after {(after.placed_at - after.since).total_seconds():.1f} s" if after.since else ""
        yield logging.INFO, f"All {len(after.tasks)} replicas are placed{waited}"
    # The workers' attributes come a call later than the tasks that name them.
    if after.places != before.places:
        yield logging.INFO, "On " + ", ".join(f"{place} ({count})" for place, count in after.places.items())


def _told_of_attempts(before: Seen, after: Seen) -> Iterator[Line]:
    if after.tasks is before.tasks:
        return
    for task in after.tasks:
        for attempt in task.attempts:
            if attempt.state in SETBACK and attempt.attempt_id > before.setbacks.get(task.index, -1):
                what = f"replica {task.index} attempt {attempt.attempt_id} {attempt.state}"
                yield logging.WARNING, f"{what}: {' '.join(attempt.error.split()) or f'exit code {attempt.exit_code}'}"


def _counted(counts: object) -> str:
    shown = ", ".join(f"{count} {state}" for state, count in counts.items()) if isinstance(counts, dict) else ""
    return f" ({shown})" if shown else ""
