"""IrisPlacementSensor: waits until a job has all its machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fray_airflow.errors import InvalidSpecError
from fray_airflow.exceptions import for_airflow
from fray_airflow.sensors.question import QuestionSensor
from fray_airflow.triggers.placement import IrisPlacementTrigger


class IrisPlacementSensor(QuestionSensor):
    """Succeeds when every replica of `job_id` is on a worker, and returns where: one dict per replica (per slice above
    64): `replica, worker, slice, region, zone, device, preemptible`.

    stable_for: seconds, or a timedelta, that all replicas must have kept their places; 0. Counted from when Iris began
    the youngest attempt of any replica, so a lost place starts it anew, and no mode has to remember anything. Iris's
    clock and this machine's should agree.
    Fails, without a retry, when the job ends in another way than success. A job that has succeeded was placed.
    """

    template_fields: Sequence[str] = ("job_id", "iris_conn_id")

    def __init__(self, *, job_id: str, stable_for: float | timedelta = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        seconds = stable_for.total_seconds() if isinstance(stable_for, timedelta) else stable_for
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
            fault = f"stable_for={stable_for!r} is not a time; give seconds from 0 on, or a timedelta"
            raise for_airflow(InvalidSpecError("IrisPlacementSensor", [fault]))
        self.stable_for = seconds

    def trigger(self) -> IrisPlacementTrigger:
        return IrisPlacementTrigger(self.iris_conn_id, self.job_id, self.poke_interval, self.stable_for)
