"""Prints what each answer to each call leads to, from the client's errors and the machine's next action.

`python tests/lifecycle/failure_table.py --write` puts it into docs/failures.md, which a test compares.
"""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
from airflow.sdk.exceptions import AirflowFailException

from fray_airflow.exceptions import for_airflow
from fray_airflow.iris import calls
from fray_airflow.iris.failure import WireFailure, to_error
from fray_airflow.iris.over_connect import _CODE_OF_STATUS
from fray_airflow.lifecycle import (
    Finish,
    LookUp,
    Plan,
    PlannedJob,
    ReadLogs,
    ReadStatus,
    ReadTasks,
    Seen,
    Stop,
    Submit,
    Terminate,
    Wait,
    learn,
    step,
)
from fray_airflow.logs import LogCursor
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus

DOCUMENT = Path(__file__).parents[2] / "docs" / "failures.md"
CODES = [code.name.lower().replace("cancelled", "canceled") for code in grpc.StatusCode if code.name != "OK"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB_ID = "/me/job"
PLAN = Plan(job=PlannedJob(JOB_ID, "place.life"))
CURSOR = LogCursor(JOB_ID)
WATCHING = Seen(
    found={JOB_ID: None}, job_id=JOB_ID, since=NOW, cursor=CURSOR, status=JobStatus(JOB_ID, JobState.RUNNING)
)
# Column, call, action, what is known before it.
MOMENTS = (
    ("first look", calls.GET_JOB_STATUS, LookUp(JOB_ID), Seen()),
    ("submission", calls.LAUNCH_JOB, Submit(PLAN.job), Seen(found={JOB_ID: None})),
    ("state", calls.GET_JOB_STATUS, ReadStatus(JOB_ID), WATCHING),
    ("replicas", calls.LIST_TASKS, ReadTasks(JOB_ID), WATCHING),
    ("log", calls.FETCH_LOGS, ReadLogs(CURSOR), WATCHING),
    ("termination", calls.TERMINATE_JOB, Terminate(JOB_ID), replace(WATCHING, stop=Stop.KILLED)),
)


def outcome(call, action, seen, code):
    """What the operator and the trigger do next, in a few words."""
    first = "reads the connection again, once; then " if code == "unauthenticated" else ""
    return first + reaction(call, action, seen, code)


def reaction(call, action, seen, code):
    error = to_error(WireFailure(code, "text"), call, "Iris", JOB_ID)
    after, following = step(PLAN, learn(seen, action, error, NOW), NOW + timedelta(seconds=1))
    if isinstance(following, Finish):
        done = isinstance(action, Terminate) and after.terminated
        return "done: it is gone" if done else ending(following.error)
    if isinstance(following, Wait) and after.away_since:
        return "asks again, for `outage_tolerance`"
    if isinstance(following, Wait) and after.missing_since:
        return "asks again, for 60 s"
    if isinstance(action, Submit):
        return "looks whether the job is ours"
    return "goes on" if not isinstance(following, Submit) else "submits"


def ending(error):
    retried = "not retried" if isinstance(for_airflow(error), AirflowFailException) else "retried"
    return f"{type(error).__name__}, {retried}"


def table():
    lines = ["| answer | " + " | ".join(name for name, *_ in MOMENTS) + " |", "|---" * (len(MOMENTS) + 1) + "|"]
    for code in CODES:
        cells = (outcome(call, action, seen, code) for _, call, action, seen in MOMENTS)
        lines.append(f"| `{code}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document():
    statuses = ", ".join(f"{status} is `{code}`" for status, code in sorted(_CODE_OF_STATUS.items()))
    return f"""# Answers that are not replies

What operator and trigger do when a call is answered by an error, in both modes and over both transports. "Retried" and
"not retried" say what Airflow does with the error, within the task's `retries`. Before any of this the client itself
sends a call again, up to four times within 20 s, when the answer is `unavailable`, `deadline_exceeded`, `canceled` or
`aborted`; a submission too, since a second one under the same name is refused.

{table()}

HTTP answers that are not Connect's own, from a proxy for example, count by their status: {statuses}; any other is
`unknown`.

This page is written by `python tests/lifecycle/failure_table.py --write`.
"""


if __name__ == "__main__":
    if "--write" in sys.argv:
        DOCUMENT.write_text(document())
    else:
        print(document())
