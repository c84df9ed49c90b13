"""IrisCapacitySensor: waits until a job of some shape could be placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fray_airflow.plain import to_plain
from fray_airflow.resources import ResourceConfig
from fray_airflow.sensors.question import QuestionSensor
from fray_airflow.triggers.capacity import IrisCapacityTrigger


class IrisCapacitySensor(QuestionSensor):
    """Succeeds when what `resource_config` asks for is free, and returns `wanted, free, headroom, text`.

    resource_config: as for IrisSubmitJobOperator, a ResourceConfig or a dict. Its log says in words what is missing.
    allow_scale_up: True takes a scaling group that can grow for free machines, since Iris grows it when the job comes.
    gpu_gang_level: as for IrisSubmitJobOperator.
    Nothing is reserved: somebody else's job may be faster. Fails, without a retry, when no scaling group of the cluster
    has such machines, and when the controller does not let us see.
    """

    template_fields: Sequence[str] = ("resource_config", "gpu_gang_level", "iris_conn_id")

    def __init__(
        self,
        *,
        resource_config: ResourceConfig | dict[str, Any] | str,
        allow_scale_up: bool = True,
        gpu_gang_level: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.gpu_gang_level = gpu_gang_level
        self.resource_config = to_plain(resource_config)
        self.allow_scale_up = allow_scale_up

    def trigger(self) -> IrisCapacityTrigger:
        return IrisCapacityTrigger(
            self.iris_conn_id,
            to_plain(self.resource_config),
            self.allow_scale_up,
            self.poke_interval,
            self.gpu_gang_level,
        )
