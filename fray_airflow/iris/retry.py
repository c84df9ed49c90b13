"""How often a call is sent again when the controller does not answer."""

from __future__ import annotations

from typing import Any

from tenacity import retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from fray_airflow.iris.failure import WireFailure

MAX_ATTEMPTS = 4

DEFAULT_PATIENCE = 20.0
"""Seconds. Deliberately short: a watcher has its own, much longer patience, and a person at a prompt has less."""


def retry_options(patience: float) -> dict[str, Any]:
    """For tenacity, sync and async: a few attempts within `patience` seconds, with jitter, for transient failures only.

    Without patience there is one attempt.
    """
    attempts = MAX_ATTEMPTS if patience > 0 else 1
    return {
        "retry": retry_if_exception(lambda error: isinstance(error, WireFailure) and error.transient),
        "stop": stop_after_attempt(attempts) | stop_after_delay(patience),
        "wait": wait_random_exponential(multiplier=0.25, max=4),
        "reraise": True,
    }
