"""How often a call is sent again when the controller does not answer."""

from __future__ import annotations

from typing import Any

from tenacity import retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

from fray_airflow.iris.failure import WireFailure


def retry_options(attempts: int, seconds: float) -> dict[str, Any]:
    """For tenacity, sync and async: up to `attempts` within `seconds`, with jitter, and only for transient failures.

    Deliberately short: a watcher has its own, much longer patience, and a person at a prompt has less.
    """
    return {
        "retry": retry_if_exception(lambda error: isinstance(error, WireFailure) and error.transient),
        "stop": stop_after_attempt(attempts) | stop_after_delay(seconds),
        "wait": wait_random_exponential(multiplier=0.25, max=4),
        "reraise": True,
    }
