"""What Airflow thinks of a task instance right now: the question before a job is cancelled."""

from __future__ import annotations

from typing import Any

_WANTED = ("running", "deferred")


def read_task_state(ti: Any) -> str | None:
    """The state of `ti` in Airflow's database, None if there is no answer. A blocking call of the task SDK."""
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
    state = states.get(ti.run_id, {}).get(key)
    return None if state is None else str(getattr(state, "value", state))


def somebody_asked(state: str | None) -> bool:
    """Whether a kill in this state was meant: by mark failed, mark success or clear.

    A kill while the task is still `running` or `deferred` comes from an eviction, a deploy, a restart of the API server
    or a triggerer that stalled; the next try, or the other triggerer, goes on with the job.
    """
    return state is not None and state not in _WANTED
