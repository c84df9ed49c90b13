"""What the events of a task's outlet assets tell: which job made the data, and what it returned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from airflow.sdk.types import OutletEventAccessorsProtocol

MAX_EVENT_RESULT_BYTES = 64 * 1024
"""An event is read with every run that it triggers, and shown in the UI: for figures and paths."""

_FACTS = ("job_id", "state", "queue_seconds", "run_seconds", "chip_seconds")


def tell_outlets(outlets: Sequence[Any], events: OutletEventAccessorsProtocol | None, facts: Mapping[str, Any]) -> None:
    """Puts the facts of a job into the event of each outlet Asset; keys that the author has set there stay.

    An alias has no event of its own until the author adds assets to it. May be called twice.
    """
    if events is None:
        return
    extra = event_extra(facts)
    for outlet in outlets:
        if isinstance(outlet, Asset):
            accessor = events[outlet]
            accessor.extra = {**extra, **accessor.extra}


def event_extra(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that an event holds, as JSON. A result that is not JSON, or too large, is left out with a note."""
    extra = {name: facts[name] for name in _FACTS if name in facts}
    if "result" not in facts:
        return extra
    try:
        size = len(json.dumps(facts["result"], allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return {**extra, "result_omitted": "the result is not JSON; the task's XCom has it"}
    if size > MAX_EVENT_RESULT_BYTES:
        note = f"the result has {size} bytes, more than {MAX_EVENT_RESULT_BYTES}; the task's XCom has it"
        return {**extra, "result_omitted": note}
    return {**extra, "result": facts["result"]}
