"""IrisPlacementTrigger: waits for a job's placement."""

from __future__ import annotations

from typing import Any

from fray_airflow.questions import PlacementQuestion
from fray_airflow.triggers.question import QuestionTrigger


class IrisPlacementTrigger(QuestionTrigger):
    """Its event has `placement`, or `failure` as a text when placement cannot come any more.

    `unknown` takes arguments of newer versions, whose rows this one may have to run during an upgrade.
    """

    path = "fray_airflow.triggers.placement.IrisPlacementTrigger"
    answer_key = "placement"

    def __init__(
        self, iris_conn_id: str, job_id: str, poll_interval: float = 10, stable_for: float = 0, **unknown: Any
    ) -> None:
        super().__init__(iris_conn_id, PlacementQuestion(job_id, stable_for), poll_interval)
