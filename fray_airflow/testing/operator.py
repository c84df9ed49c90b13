"""An operator run without a database: rendered, executed, deferred and resumed as Airflow does it."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import re
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.bases.operator import ExecutorSafeguard, TriggerFailureReason
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRescheduleException, TaskDeferred

from fray_airflow import clock
from fray_airflow.testing.airflow import TASK_ID_ENV
from fray_airflow.testing.clock import trigger_limit
from fray_airflow.testing.task_instance import TaskInstance
from fray_airflow.testing.task_instance import template_context as _context

NOW = datetime(2026, 1, 1, tzinfo=UTC)

_TRIGGER_FAILED = "__fail__"
"""The method with which Airflow resumes a task whose trigger did not come to an event."""


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
    conf: Mapping[str, Any] | None = None,
    upstream: Mapping[str, Any] | None = None,
    run_id: str = "run-1",
    run_start: datetime = NOW,
    try_number: int = 1,
    max_tries: int | None = None,
    map_index: int = -1,
) -> OperatorRun:
    """Renders and executes a copy of `operator`, sensors too. When it defers, runs its trigger to the event and resumes
    it, as often as it does that; when a sensor asks to be rescheduled, waits and executes it again.

    May be called again with the same arguments, which is the same try once more, or with another `try_number`.
    `upstream` is what other tasks have returned, by task id, for templates and `.output` that pull it.
    `params` take the place of the DAG's own of the same names, `conf` is the run's, `run_start` its logical date too.
    `max_tries` is the task's `retries` unless it has been cleared. Raises what the operator raises.
    Connections come from the environment; for one that is missing, AirflowNotFoundException says what to do.
    """
    if not isinstance(operator, BaseOperator):
        raise TypeError(
            f"{operator!r} is no operator. A mapped task is one after unmapping, as in "
            "run_operator(task.unmap({'command': ['true']})); run_dag expands it. A function of @task.iris is one in "
            "its DAG: dag.get_task('train')."
        )
    tries = (operator.retries or 0) if max_tries is None else max_tries
    ti = TaskInstance(
        operator.dag_id, run_id, operator.task_id, map_index, try_number, max_tries=tries, upstream=upstream or {}
    )
    resumed: tuple[str, dict[str, Any]] | None = None
    while True:
        # Workers keep nothing from one turn to the next.
        copy = operator.prepare_for_execution()
        context = _context(copy, ti, params, run_start, conf)
        try:
            copy.render_template_fields(context)
            value = _as_task_runner(copy, _turn(copy, resumed), context)
        except TaskDeferred as deferral:
            resumed = _run_coroutine(_resumption(deferral))
        except AirflowRescheduleException as later:
            ti.reschedules += 1
            clock.sleep(max(0.0, (later.reschedule_date - datetime.now(UTC)).total_seconds()))
        except AirflowNotFoundException as error:
            raise _missing_connection(error) from None
        else:
            return OperatorRun(value, ti.xcoms, deferred=resumed is not None)


def execute_once(
    operator: BaseOperator, ti: TaskInstance, *, params: Mapping[str, Any] | None = None, run_start: datetime = NOW
) -> Any:
    """One turn on a worker: renders and executes. Raises TaskDeferred when the operator defers."""
    context = _context(operator, ti, params, run_start)
    operator.render_template_fields(context)
    return _as_task_runner(operator, operator.execute, context)


def _turn(operator: BaseOperator, resumed: tuple[str, dict[str, Any]] | None) -> Callable[[Any], Any]:
    if resumed is None:
        return operator.execute
    method, arguments = resumed
    return lambda context: operator.resume_execution(method, arguments, context)


def _missing_connection(error: AirflowNotFoundException) -> AirflowNotFoundException:
    found = re.search(r"`(.+)`", str(error))
    if found is None:
        return error
    name = found[1]
    return AirflowNotFoundException(
        f"There is no connection {name!r}. In a test, use the iris_connection fixture of fray_airflow.testing, which "
        f"defines 'iris_default', and iris_connection.set({name!r}) for another name; or set AIRFLOW_CONN_"
        f"{name.upper()}, as in monkeypatch.setenv('AIRFLOW_CONN_{name.upper()}', "
        """'{"conn_type": "iris", "host": "grpc://127.0.0.1:10001"}')."""
    )


def _as_task_runner(operator: BaseOperator, method: Callable[[Any], Any], context: Any) -> Any:
    """Operators refuse to be executed by anything else. Of the variables that it sets, they get the task's id."""

    def call() -> Any:
        ExecutorSafeguard.tracker.set(operator)
        return method(context)

    before = os.environ.get(TASK_ID_ENV)
    os.environ[TASK_ID_ENV] = operator.task_id
    try:
        return contextvars.copy_context().run(call)
    finally:
        os.environ.pop(TASK_ID_ENV, None)
        if before is not None:
            os.environ[TASK_ID_ENV] = before


def _run_coroutine[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """In a thread of its own where this one has a running event loop, as under an `async def` test."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def _resumption(deferral: TaskDeferred) -> tuple[str, dict[str, Any]]:
    """How the task is resumed: with the event of its trigger, or without one when that took too long."""
    path, arguments = deferral.trigger.serialize()
    module, _, name = path.rpartition(".")
    # Through the database and back, as every trigger and every event goes.
    trigger = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))
    timeout = deferral.timeout.total_seconds() if deferral.timeout is not None else None
    events = trigger.run()
    try:
        with trigger_limit(timeout):
            event = await asyncio.wait_for(anext(events), timeout)
    except TimeoutError:
        if timeout is None:
            raise
        return _TRIGGER_FAILED, {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    except StopAsyncIteration:
        raise AssertionError(f"{path} ended without an event") from None
    finally:
        await events.aclose()
    return deferral.method_name, {**(deferral.kwargs or {}), "event": json.loads(json.dumps(event.payload))}
