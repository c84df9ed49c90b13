"""What can be known of an operator's arguments when the DAG is parsed; templates are checked after rendering."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fray_airflow.gangs import level_fault
from fray_airflow.hooks.secrets import check_references
from fray_airflow.operators.delivery import result_faults
from fray_airflow.operators.rungs import SLICE_STRATEGIES
from fray_airflow.operators.spec import is_final
from fray_airflow.units import parse_duration

if TYPE_CHECKING:
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

LEVELS = {name.lower(): logging.getLevelNamesMapping()[name] for name in ("DEBUG", "INFO", "WARNING", "ERROR")}
"""What log_min_level may be."""

ON_KILL_ACTIONS = ("terminate", "keep")

_DURATIONS = ("poll_interval", "placement_timeout", "hold_timeout", "job_timeout", "outage_tolerance")
_COUNTS = ("log_replica", "log_max_lines")


def argument_faults(operator: IrisSubmitJobOperator) -> list[str]:
    """Every fault of the arguments that are not part of the spec, each with the valid choices."""
    return [
        *_unknown_choices(operator),
        *_bad_durations(operator),
        *([fault] if is_final(operator.gpu_gang_level) and (fault := level_fault(operator.gpu_gang_level)) else []),
        *(
            f"{name}={getattr(operator, name)!r} is not a whole number from 0 on"
            for name in _COUNTS
            if not _is_count(getattr(operator, name))
        ),
        *check_references(operator.secrets),
        *result_faults(operator),
    ]


def _unknown_choices(operator: IrisSubmitJobOperator) -> Iterator[str]:
    if operator.on_kill_action not in ON_KILL_ACTIONS:
        yield f"on_kill_action={operator.on_kill_action!r} is unknown; choose from {', '.join(ON_KILL_ACTIONS)}"
    if operator.slice_strategy is not None and operator.slice_strategy not in SLICE_STRATEGIES:
        yield f"slice_strategy={operator.slice_strategy!r} is unknown; choose from {', '.join(SLICE_STRATEGIES)}"
    level = operator.log_min_level
    if level is not None and (not isinstance(level, str) or level.lower() not in LEVELS):
        yield f"log_min_level={level!r} is unknown; choose from {', '.join(LEVELS)}"


def _bad_durations(operator: IrisSubmitJobOperator) -> Iterator[str]:
    for name in _DURATIONS:
        value = getattr(operator, name)
        if value is None or not is_final(value):
            continue
        try:
            parse_duration(value)
        except ValueError as error:
            yield f"{name}: {error}"


def _is_count(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
