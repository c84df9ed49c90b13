"""IrisCapacityTrigger: waits until a job of some shape could be placed."""

from __future__ import annotations

from typing import Any

from fray_airflow.questions import CapacityQuestion
from fray_airflow.triggers.question import QuestionTrigger


class IrisCapacityTrigger(QuestionTrigger):
    """Its event has `capacity`, or `failure` as a text when the cluster has no such machines.

    `resource_config` is plain: a dict of a ResourceConfig's fields, as `to_plain` makes it.
    """

    path = "fray_airflow.triggers.capacity.IrisCapacityTrigger"
    answer_key = "capacity"

    def __init__(
        self,
        iris_conn_id: str,
        resource_config: Any,
        allow_scale_up: bool = True,
        poll_interval: float = 10,
        gpu_gang_level: str | None = None,
        **unknown: Any,
    ) -> None:
        question = CapacityQuestion(resource_config, allow_scale_up, gpu_gang_level)
        super().__init__(iris_conn_id, question, poll_interval)
