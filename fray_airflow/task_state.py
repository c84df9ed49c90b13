"""What Airflow thinks of a task instance right now: the question before a job is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from threading import Thread
from typing import Any

JOB_ID_KEY = "job_id"
"""The XCom of a task instance that names the job of its current try."""

JOBS_KEY = "iris_jobs"
"""The XCom for those who come from outside: all jobs of the current try and where they are, as LaunchedJobs."""

STATE_SECONDS = 2.0
"""A handler of SIGTERM has five seconds in all."""

CLEARED = "no_status"
"""Airflow has no name for the state of a task instance that was just cleared; its pages say this."""

END_STATES = ("failed", "success", "skipped", "upstream_failed", "removed")
_ENDED = ("restarting", *END_STATES)
_WATCHED = ("running", "deferred")


@dataclass(frozen=True, slots=True)
class LaunchedJobs:
    """What a try of a task instance launched.

    token: its launch token (`identity.LAUNCH_ENV`), which tells its jobs from others that got their names later.
    ends_on_kill: whether the jobs end when the task is marked.
    """

    iris_conn_id: str
    job_ids: tuple[str, ...]
    token: str
    ends_on_kill: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "v": 1,
            "iris_conn_id": self.iris_conn_id,
            "job_ids": list(self.job_ids),
            "token": self.token,
            "on_kill": "terminate" if self.ends_on_kill else "keep",
        }

    @staticmethod
    def from_json(value: Any) -> LaunchedJobs | None:
        """None for what is not such a value: anybody may push an XCom. Unknown keys (a newer writer) are ignored."""
        if not isinstance(value, dict):
            return None
        conn_id, job_ids, token = value.get("iris_conn_id"), value.get("job_ids"), value.get("token")
        if not (isinstance(conn_id, str) and isinstance(job_ids, list) and isinstance(token, str)):
            return None
        return LaunchedJobs(conn_id, tuple(map(str, job_ids)), token, value.get("on_kill") == "terminate")


def aside(work: Callable[[], object], seconds: float) -> None:
    """Does `work` beside a signal handler, and waits for it so long at most.

    The code that the signal interrupted may hold what `work` needs, such as the lock of the log. In the handler itself
    it would wait for ever: for code that goes on only when the handler has returned.
    """
    thread = Thread(target=work, name="fray-airflow-on-kill", daemon=True)
    thread.start()
    thread.join(seconds)


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
