"""How far a trigger has shown its job's log, kept where the next triggerer finds it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from asgiref.sync import sync_to_async

BOOKMARK_KEY = "iris_log_bookmark"
"""The XCom that holds it."""

SECONDS_BETWEEN = 30.0
"""So much of a log may be shown twice after a triggerer died; each bookmark costs Airflow a write."""


class Bookmark:
    """Of one task instance. Without one, as in `dag.test()`, there is nothing to keep."""

    def __init__(self, ti: Any) -> None:
        self._ti = ti
        self._kept_at = time.monotonic()
        self._kept: Any = None

    async def read(self, job_id: str) -> dict[str, Any] | None:
        """What an earlier trigger of the same job kept, None if there was none or no answer."""
        if self._ti is None:
            return None
        try:
            value = await _in_thread(_read, self._ti)
        except Exception:
            # Lines that are shown twice are the lesser trouble.
            return None
        return value if isinstance(value, dict) and value.get("job_id") == job_id else None

    async def keep(self, job_id: str, value: Mapping[str, Any]) -> None:
        """Writes `value` if the last one is old enough, and it differs."""
        if self._ti is None or value == self._kept or time.monotonic() - self._kept_at < SECONDS_BETWEEN:
            return
        self._kept_at, self._kept = time.monotonic(), value
        try:
            await _in_thread(_write, self._ti, {"job_id": job_id, **value})
        except Exception:
            return


async def _in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    """A cancellation that comes meanwhile arrives with its message, which `sync_to_async` alone would lose: Airflow
    tells by it a kill from a restart, and calls no `on_kill` without."""
    return await asyncio.shield(asyncio.create_task(sync_to_async(call)(*arguments)))


def _read(ti: Any) -> Any:
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.get_one(
        key=BOOKMARK_KEY, dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=ti.map_index
    )


def _write(ti: Any, value: Any) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    XCom.set(
        key=BOOKMARK_KEY,
        value=value,
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=ti.map_index,
    )
