"""IrisJobStateTrigger: waits for a job's state, and only watches."""

from __future__ import annotations

from typing import Any

from fray_airflow.questions import JobStateQuestion
from fray_airflow.triggers.question import QuestionTrigger


class IrisJobStateTrigger(QuestionTrigger):
    """Its event has `job`, or `failure` as a text when the job has ended in another way."""

    path = "fray_airflow.triggers.job_state.IrisJobStateTrigger"
    answer_key = "job"

    def __init__(
        self, iris_conn_id: str, job_id: str, state: str = "succeeded", poll_interval: float = 10, **unknown: Any
    ) -> None:
        super().__init__(iris_conn_id, JobStateQuestion(job_id, state), poll_interval)
