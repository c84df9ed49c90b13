"""Many jobs in one call: their states, and what of their details changes without a change of state."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from fray_airflow.errors import PASSING_CODES, IrisAuthError, IrisError, IrisUnavailableError
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus

if TYPE_CHECKING:
    from fray_airflow.iris import AsyncIrisClient

log = logging.getLogger(__name__)

CHUNK_IDS = 1000
"""Ids in one GetJobState. Iris has no limit; a thousand take it about 0.1 s."""

MOST_CALLS = 40
"""In search of the ids that make a chunk fail: enough for two among a thousand."""

PAGE_JOBS = 500
MOST_OFFSET = 5000
"""What ListJobs gives at once, and how deep it can be paged."""

Answer = JobState | IrisError | None
"""What a call for many tells of a job; None where only a call of its own can."""


async def ask_states(client: AsyncIrisClient, job_ids: Sequence[str]) -> tuple[dict[str, Answer], set[str]]:
    """An answer for each job, and the ids that make a call fail for all that are asked in it. Raises nothing."""
    chunks = [job_ids[start : start + CHUNK_IDS] for start in range(0, len(job_ids), CHUNK_IDS)]
    answers: dict[str, Answer] = {}
    refused: set[str] = set()
    for part, bad in await asyncio.gather(*(_ask(client, chunk) for chunk in chunks)):
        answers |= part
        refused |= bad
    return answers, refused


async def list_details(client: AsyncIrisClient, jobs: Iterable[JobStatus]) -> dict[str, JobStatus]:
    """`jobs` as ListJobs has them now, those that are found in the state they were in. Raises IrisError.

    The rows lack the request: environment and band.
    """
    by_state: dict[JobState, set[str]] = {}
    for job in jobs:
        by_state.setdefault(job.state, set()).add(job.job_id)
    found: dict[str, JobStatus] = {}
    for state, job_ids in by_state.items():
        found |= await _list(client, state, job_ids)
    return found


async def _ask(client: AsyncIrisClient, job_ids: Sequence[str]) -> tuple[dict[str, Answer], set[str]]:
    """One id may be what the controller chokes on: in halves, until it is found or `MOST_CALLS` are made."""
    answers: dict[str, Answer] = {}
    refused: set[str] = set()
    parts, calls, error = [job_ids], 0, None
    while parts and calls < MOST_CALLS:
        part, calls = parts.pop(), calls + 1
        try:
            states = await client.job_states(part)
        except (IrisUnavailableError, IrisAuthError) as away:
            return {**dict.fromkeys(job_ids, away), **answers}, refused
        except IrisError as failure:
            error = failure
            if len(part) == 1:
                refused.update(part)
            else:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
        else:
            answers |= {job_id: states.get(job_id) for job_id in part}
    if error is not None and not answers:
        # Whatever is wrong there, it is not the ids. Perhaps it passes, or only this one call is refused.
        return dict.fromkeys(job_ids, error if error.code in PASSING_CODES and len(job_ids) > 1 else None), set()
    if refused:
        log.warning("Iris tells no states when asked for %s among others: %s", ", ".join(sorted(refused)), error)
    return {**dict.fromkeys(job_ids), **answers}, refused


async def _list(client: AsyncIrisClient, state: JobState, wanted: set[str]) -> dict[str, JobStatus]:
    from fray_airflow.iris import operations

    # Other people's jobs are left out as far as a common beginning can do that.
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(min(wanted), max(wanted), strict=False))
    prefix = "".join(letter for letter, _ in pairs)
    found: dict[str, JobStatus] = {}
    for offset in range(0, min(MOST_OFFSET, 2 * len(wanted)) + 1, PAGE_JOBS):
        operation = operations.jobs(state=state.name.lower(), limit=PAGE_JOBS, prefix=prefix, offset=offset)
        page = await client.run(operation)
        found |= {job.job_id: job for job in page if job.job_id in wanted}
        if len(page) < PAGE_JOBS or len(found) == len(wanted):
            break
    return found
