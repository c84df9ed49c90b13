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

_WANTED = ("running", "deferred")


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


def somebody_asked(state: str | None) -> bool:
    """Whether a kill in this state was meant: by mark failed, mark success or clear.

    A kill while the task is still `running` or `deferred` comes from an eviction, a deploy, a restart of the API server
    or a triggerer that stalled; the next try, or the other triggerer, goes on with the job.
    """
    return state is not None and state not in _WANTED


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
