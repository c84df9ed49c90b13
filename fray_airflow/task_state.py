"""What Airflow thinks of a task instance right now: the question before a job is cancelled."""

from __future__ import annotations

from concurrent.futures import Future, TimeoutError
from threading import Thread
from typing import Any

JOB_ID_KEY = "job_id"
"""The XCom of a task instance that names the job of its current try."""

STATE_SECONDS = 2.0
"""A handler of SIGTERM has five seconds in all."""

CLEARED = "no_status"
"""Airflow has no name for the state of a task instance that was just cleared; its pages say this."""

_ENDED = ("restarting", "failed", "success", "skipped", "upstream_failed", "removed")
_WATCHED = ("running", "deferred")


def read_task_state(ti: Any) -> str | None:
    """The state of `ti` in Airflow's database, None if there is no answer within STATE_SECONDS.

    In a thread, because the signal may have interrupted the very code that holds the way to the API server, and a
    second use from the same thread would wait for ever.
    """
    answer: Future[str | None] = Future()
    Thread(target=_answer, args=(answer, ti), name="fray-airflow-task-state", daemon=True).start()
    try:
        return answer.result(STATE_SECONDS)
    except TimeoutError:
        return None


def worker_kill_was_meant(state: str | None) -> bool:
    """Whether a worker that is killed in this state was killed because of its task: marked, or cleared while it ran.

    In every other state there is a next try that adopts the job. Still `running`: an eviction, a deploy, an API server
    that went away. Already `queued`: a new scheduler has taken the task back from an orphaned worker.
    """
    return state in _ENDED


def trigger_kill_was_meant(state: str | None) -> bool:
    """The same for a trigger. While it is deferred its task has no worker that could be lost, so a task that is neither
    `deferred` nor `running` by now was marked or cleared."""
    return state is not None and state not in _WATCHED


def ask_task_state(ti: Any) -> str | None:
    """The same for a thread of its own, as in a triggerer. A blocking call of the task SDK."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    map_index = -1 if ti.map_index is None else ti.map_index
    try:
        states = RuntimeTaskInstance.get_task_states(
            dag_id=ti.dag_id,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
            map_index=map_index if map_index >= 0 else None,
        )
    except Exception:
        # Without an answer nothing may be cancelled, whatever the reason: the API server may just restart.
        return None
    key = ti.task_id if map_index < 0 else f"{ti.task_id}_{map_index}"
    run = states.get(ti.run_id, {})
    if key not in run:
        return None
    return CLEARED if run[key] is None else str(getattr(run[key], "value", run[key]))


def ask_current_job(ti: Any) -> str | None:
    """The job of the try that is current now, "" if it has none yet, None if there is no answer. Blocking."""
    from airflow.sdk.execution_time.xcom import XCom

    try:
        job_id = XCom.get_one(
            key=JOB_ID_KEY, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index
        )
    except Exception:
        return None
    return str(job_id) if job_id else ""


def _answer(answer: Future[str | None], ti: Any) -> None:
    answer.set_result(ask_task_state(ti))
