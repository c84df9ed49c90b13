"""An operator run without a database: rendered, executed, deferred and resumed as Airflow does it."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import TaskDeferred

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class TaskInstance:
    """What operators use of Airflow's task instance. `xcoms` holds what was pushed."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 0
    start_date: datetime = field(default_factory=lambda: datetime.now(UTC))
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        # XComs are JSON: a value that is not would fail in real Airflow.
        self.xcoms[key] = json.loads(json.dumps(value))

    def xcom_pull(self, task_ids: Any = None, key: str = "return_value", **_: Any) -> Any:
        return self.xcoms.get(key)


@dataclass
class OperatorRun:
    """How an execution ended: what it returned, what it pushed, and whether it waited in the triggerer."""

    value: Any
    xcoms: dict[str, Any]
    deferred: bool


def run_operator(
    operator: BaseOperator,
    *,
    params: Mapping[str, Any] | None = None,
    run_id: str = "run-1",
    try_number: int = 1,
    max_tries: int | None = None,
    run_start: datetime = NOW,
    map_index: int = -1,
) -> OperatorRun:
    """Renders and executes `operator`; when it defers, runs its trigger to the event and resumes it.

    May be called again with the same arguments, which is the same try once more, or with another `try_number`.
    `max_tries` is the task's `retries` unless it has been cleared. Raises what the operator raises.
    """
    tries = (operator.retries or 0) if max_tries is None else max_tries
    ti = TaskInstance(operator.dag_id, run_id, operator.task_id, map_index, try_number, max_tries=tries)
    deferral: TaskDeferred | None = None
    while True:
        try:
            if deferral is None:
                value = execute_once(operator, ti, params=params, run_start=run_start)
            else:
                event = asyncio.run(_first_event(deferral.trigger))
                context = _context(operator, ti, params, run_start)
                value = _as_task_runner(operator, getattr(operator, deferral.method_name), context, event=event)
        except TaskDeferred as next_deferral:
            # A launch that has to submit again comes back to a worker, and may defer once more.
            deferral = next_deferral
        else:
            return OperatorRun(value, ti.xcoms, deferred=deferral is not None)


def execute_once(
    operator: BaseOperator, ti: TaskInstance, *, params: Mapping[str, Any] | None = None, run_start: datetime = NOW
) -> Any:
    """One turn on a worker: renders and executes. Raises TaskDeferred when the operator defers."""
    context = _context(operator, ti, params, run_start)
    operator.render_template_fields(context)
    return _as_task_runner(operator, operator.execute, context)


def _context(operator: BaseOperator, ti: TaskInstance, params: Mapping[str, Any] | None, run_start: datetime) -> Any:
    return {
        "ti": ti,
        "task_instance": ti,
        "task": operator,
        "dag": operator.dag,
        "dag_run": SimpleNamespace(start_date=run_start, run_id=ti.run_id, conf={}),
        "run_id": ti.run_id,
        "params": dict(params or operator.params),
    }


def _as_task_runner(operator: BaseOperator, method: Any, context: Any, **arguments: Any) -> Any:
    """Operators refuse to be executed by anything else."""

    def call() -> Any:
        ExecutorSafeguard.tracker.set(operator)
        return method(context, **arguments)

    return contextvars.copy_context().run(call)


async def _first_event(trigger: Any) -> Any:
    """The event of a trigger that went through the database and back, as every deferred one does."""
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    copy = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))
    async for event in copy.run():
        return json.loads(json.dumps(event.payload))
    raise AssertionError(f"{path} ended without an event")
