"""IrisJobSensor: waits for the state of a job that some other task, or nobody of Airflow, has submitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fray_airflow.errors import InvalidSpecError
from fray_airflow.exceptions import for_airflow
from fray_airflow.questions import AWAITED_STATES, AwaitedState
from fray_airflow.sensors.question import QuestionSensor
from fray_airflow.triggers.job_state import IrisJobStateTrigger


class IrisJobSensor(QuestionSensor):
    """Succeeds when `job_id` has come to `state`, and returns `job_id` and `state`, the one it was seen in.

    state: "succeeded"; "running", which it is from its first replica's placement on, and which a job that has
    succeeded since also was; or "finished", whatever the end.
    Fails, without a retry, when the job ends otherwise, and when the controller does not know it.
    """

    template_fields: Sequence[str] = ("job_id", "iris_conn_id")

    def __init__(self, *, job_id: str, state: AwaitedState = "succeeded", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        if state not in AWAITED_STATES:
            fault = f"state={state!r} is none of {', '.join(AWAITED_STATES)}; choose one of these"
            raise for_airflow(InvalidSpecError("IrisJobSensor", [fault]))
        self.state = state

    def trigger(self) -> IrisJobStateTrigger:
        return IrisJobStateTrigger(self.iris_conn_id, self.job_id, self.state, self.poke_interval)
