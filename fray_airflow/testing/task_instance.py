"""What a task sees of Airflow while it runs: its task instance, and the context of its templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.execution_time.context import ConnectionAccessor, MacrosAccessor, VariableAccessor

from fray_airflow import clock


@dataclass
class TaskInstance:
    """What operators use of Airflow's task instance. `xcoms` holds what was pushed, `upstream` what others returned."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 0
    start_date: datetime = field(default_factory=lambda: clock.now())
    xcoms: dict[str, Any] = field(default_factory=dict)
    upstream: Mapping[str, Any] = field(default_factory=dict)
    reschedules: int = 0

    def xcom_push(self, key: str, value: Any) -> None:
        # XComs are JSON: a value that is not would fail in real Airflow.
        self.xcoms[key] = json.loads(json.dumps(value))

    def xcom_pull(self, task_ids: Any = None, key: str = "return_value", **_: Any) -> Any:
        if task_ids is not None and not isinstance(task_ids, str):
            return [self.xcom_pull(each, key) for each in task_ids]
        if task_ids in (None, self.task_id):
            return self.xcoms.get(key)
        if task_ids not in self.upstream:
            raise self._not_given(task_ids, "...")
        returned = self.upstream[task_ids]
        if key == "return_value":
            return returned
        # Facts of a job are XComs of their own, too.
        if not isinstance(returned, Mapping) or key not in returned:
            raise self._not_given(task_ids, f"{{{key!r}: ...}}")
        return returned[key]

    def get_first_reschedule_date(self, context: Any) -> datetime | None:
        """For sensors, which subtract it from the real time: as long ago as this task's time says."""
        return datetime.now(UTC) - (clock.now() - self.start_date) if self.reschedules else None

    def _not_given(self, task_id: str, value: str) -> LookupError:
        return LookupError(
            f"Task {self.task_id!r} pulls an XCom of {task_id!r}, which does not run here. Say what it returned: "
            f"run_operator(..., upstream={{{task_id!r}: {value}}})"
        )


def template_context(
    operator: BaseOperator,
    ti: TaskInstance,
    params: Mapping[str, Any] | None,
    run_start: datetime,
    conf: Mapping[str, Any] | None = None,
) -> Any:
    """Of a run whose logical date is its start."""
    day = run_start.strftime("%Y-%m-%d")
    return {
        "ti": ti,
        "task_instance": ti,
        "task": operator,
        "dag": operator.dag,
        "dag_run": SimpleNamespace(
            dag_id=ti.dag_id, run_id=ti.run_id, start_date=run_start, logical_date=run_start, conf=dict(conf or {})
        ),
        "run_id": ti.run_id,
        "params": {**operator.params, **(params or {})},
        "logical_date": run_start,
        "data_interval_start": run_start,
        "data_interval_end": run_start,
        "ds": day,
        "ds_nodash": day.replace("-", ""),
        "ts": run_start.isoformat(),
        "ts_nodash": run_start.strftime("%Y%m%dT%H%M%S"),
        "macros": MacrosAccessor(),
        "var": {"value": VariableAccessor(deserialize_json=False), "json": VariableAccessor(deserialize_json=True)},
        "conn": ConnectionAccessor(),
    }
