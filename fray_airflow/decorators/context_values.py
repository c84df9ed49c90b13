"""What of Airflow's context a function gets on the cluster: plain values, and those only that it names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from fray_airflow.errors import InvalidSpecError

LIVE = frozenset(
    {
        "asset_state_store",
        "conn",
        "dag",
        "dag_run",
        "exception",
        "inlet_events",
        "inlets",
        "macros",
        "outlet_events",
        "outlets",
        "task",
        "task_instance",
        "task_state_store",
        "test_mode",
        "ti",
        "triggering_asset_events",
        "var",
    }
)
"""They talk to Airflow, or lead to what does; there is no Airflow where the function runs."""


def wanted(
    function: Callable[..., Any], args: Collection[Any], kwargs: Mapping[str, Any], known: Iterable[str]
) -> list[str]:
    """Names of the context that are parameters of `function` and have no argument.

    `**kwargs` asks for none: on the cluster, all of the context would be a mass of things that cannot go there.
    """
    parameters = inspect.signature(function).parameters.values()
    by_position = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY][: len(args)]
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return [name for name in names if name in set(known) and name not in by_position and name not in kwargs]


def values_for(names: Iterable[str], context: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name. Raises InvalidSpecError that names those which cannot go to the cluster."""
    values, faults = {}, []
    for name in names:
        if name not in context:
            faults.append(f"Airflow has no {name} for this task; give the parameter {name} an argument")
            continue
        try:
            values[name] = _plain(context[name])
        except TypeError as error:
            faults.append(refusal(name, str(error)))
    if faults:
        raise InvalidSpecError("@task.iris", faults)
    return values


def refusal(name: str, what: str = "") -> str:
    return (
        f"the parameter {name} stands for Airflow's {what or name}, which cannot go to the cluster; pass what you need "
        'of it as an argument, such as "{{ ti.try_number }}" or "{{ dag_run.conf.x }}"'
    )


def _plain(value: Any) -> Any:
    """A copy of standard types: the cluster need not have Airflow, nor pendulum. Raises TypeError for what has none."""
    if value is None:
        return None
    for kind in (bool, int, float, str):
        # Through a lazy proxy, isinstance sees the class of what is behind it.
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, datetime):
        # With a fixed offset: a pendulum zone is a class of pendulum's.
        return datetime.fromisoformat(value.isoformat())
    if isinstance(value, date):
        return date(value.year, value.month, value.day)
    if isinstance(value, timedelta):
        return timedelta(seconds=value.total_seconds())
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in value}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    raise TypeError(type(value).__name__)
