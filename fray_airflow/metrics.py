"""What Airflow's own metrics tell of jobs: sent to the StatsD, Datadog or OpenTelemetry that the deployment has.

Every name starts with `iris.job.`; docs/observability.md lists them. None is about a single job, so that their number
stays as small as that of connections, kinds of machines and states.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fray_airflow.states import JobState

_log = logging.getLogger(__name__)

_OF_THE_TRY = ("launches", "outages")
_OF_THE_JOB = {"preemption_count": "preemptions", "failure_count": "failures"}
_DURATIONS = {"queue_seconds": "queue_duration", "run_seconds": "run_duration"}


def send_metrics(facts: Mapping[str, Any], *, conn_id: str) -> None:
    """Of one try that ended, from the facts of its launch. Never raises. Called twice, it counts twice.

    What Iris counts of a job is sent when the job has ended: a try that only stops to watch leaves it to the next one.
    """
    try:
        _send(facts, conn_id)
    except Exception:
        # A task is worth more than its metrics, whatever a backend does.
        _log.warning("Metrics of %s could not be sent.", facts.get("job_id") or "this task", exc_info=True)


def _send(facts: Mapping[str, Any], conn_id: str) -> None:
    # Not the functions of the same module, which Airflow has from 3.3 on.
    from airflow.sdk.observability.stats import Stats

    state = str(facts.get("state") or "")
    tags = {"conn_id": conn_id, "device": str(facts.get("device") or "unknown"), "state": state or "NONE"}

    def count(name: str, number: Any) -> None:
        if number:
            Stats.incr(f"iris.job.{name}", count=int(number), tags=tags)

    for name in _OF_THE_TRY:
        count(name, facts.get(name))
    if state not in JobState.__members__ or not JobState[state].finished:
        return
    for fact, name in _OF_THE_JOB.items():
        count(name, facts.get(fact))
    for fact, name in _DURATIONS.items():
        if facts.get(fact) is not None:
            # As a duration, of which every backend makes milliseconds.
            Stats.timing(f"iris.job.{name}", timedelta(seconds=facts[fact]), tags=tags)
