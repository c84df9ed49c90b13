"""What an operator was given, checked: early where it can be, again after rendering."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fray_airflow.errors import FrayError, InvalidSpecError
from fray_airflow.job import Entrypoint, EnvironmentConfig, JobRequest
from fray_airflow.operators.per_rung import PerRung
from fray_airflow.plain import environment_from, resource_config_from
from fray_airflow.resources import ResourceConfig
from fray_airflow.results import ResultOptions, check_uri

BUDGETS = {
    "max_retries_failure": "max_retries_failure",
    "max_retries_preemption": "max_retries_preemption",
    "max_task_failures": "max_task_failures",
    "processes_per_task": "processes_per_task",
    "priority_band": "priority",
    "job_timeout": "timeout",
    "ports": "ports",
}
"""Arguments of the operator, and what a JobRequest calls them."""

_PLACEHOLDER_NAME = "named-at-run-time"


def is_final(value: Any) -> bool:
    """Whether `value` will be the same after rendering: no template, no XCom, no callable at any depth."""
    if value is None or isinstance(value, bool | int | float):
        # Most arguments, of thousands of operators.
        return True
    return all(_is_final_leaf(leaf) for leaf in _leaves(value))


def build_job(
    *,
    resource_config: Any,
    command: Any,
    entrypoint: Entrypoint | None,
    environment: Any,
    result: ResultOptions | None = None,
    secrets: Mapping[str, str],
    secrets_as_env: bool = False,
    budgets: Mapping[str, Any],
    name: str | None = None,
) -> JobRequest:
    """The JobRequest of rendered arguments. Raises one InvalidSpecError with the faults of all of them."""
    faults: list[str] = []
    resources = _collect(faults, "resource_config", resource_config_from, resource_config or {}) or ResourceConfig()
    where = _collect(faults, "environment", environment_from, environment)
    runs = entrypoint or _collect(faults, "command", _entrypoint_from, command)
    if runs is not None:
        runs = replace(runs, result=result)
    if result is not None and result.uri is not None and is_final(result.uri):
        _collect(faults, "result_uri", check_uri, result.uri)
    if secrets:
        where = where or EnvironmentConfig()
        env_vars = {**where.env_vars, **secrets} if secrets_as_env else where.env_vars
        where = replace(where, secrets=dict(secrets), env_vars=env_vars)
    job = _collect(
        faults,
        "job",
        lambda _: JobRequest(
            name=name or _PLACEHOLDER_NAME,
            entrypoint=runs or Entrypoint.from_binary("true"),
            resources=resources,
            environment=where,
            **_with_room_for_retries(budgets, resources),
        ),
        None,
    )
    if faults or job is None:
        raise InvalidSpecError("IrisSubmitJobOperator", faults)
    return job


def _with_room_for_retries(budgets: Mapping[str, Any], resources: ResourceConfig) -> dict[str, Any]:
    """Numbers from rendered text, and a job budget that lets the replicas' budget take effect.

    Iris ends a job at its first failed attempt unless max_task_failures allows it, whatever max_retries_failure says.
    """
    values = {name: _number(value) for name, value in budgets.items() if value is not None}
    retries = values.get("max_retries_failure", 0)
    asked = values.get("max_task_failures", 0)
    if isinstance(retries, int) and isinstance(asked, int):
        values["max_task_failures"] = max(asked, retries * resources.replicas)
    return values


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def _entrypoint_from(command: Any) -> Entrypoint:
    if command is None:
        raise InvalidSpecError("command", ["nothing to run; give command=[...] or entrypoint=Entrypoint.from_..."])
    words = shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
    return Entrypoint(command=tuple(words))


def _collect[T](faults: list[str], field: str, build: Callable[[Any], T], value: Any) -> T | None:
    try:
        return build(value)
    except InvalidSpecError as error:
        prefix = "" if error.subject in (field, "JobRequest") else f"{field}: "
        faults.extend(f"{prefix}{fault}" for fault in error.faults)
    except (FrayError, ValueError, TypeError) as error:
        faults.append(f"{field}={value!r}: {error}")
    return None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list | tuple | set):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _is_final_leaf(leaf: Any) -> bool:
    if isinstance(leaf, str):
        return not any(mark in leaf for mark in ("{{", "{%", "{#"))
    return not callable(leaf) and not hasattr(leaf, "resolve") and not isinstance(leaf, PerRung)
