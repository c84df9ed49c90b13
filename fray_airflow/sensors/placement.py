"""IrisPlacementSensor: waits until a job has all its machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowFailException

from fray_airflow.errors import FrayError, IrisUnavailableError
from fray_airflow.exceptions import for_airflow
from fray_airflow.hooks import IrisHook
from fray_airflow.lifecycle.placed import Placed, placed_of
from fray_airflow.triggers.placement import IrisPlacementTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class IrisPlacementSensor(BaseSensorOperator):
    """Succeeds when every replica of `job_id` is on a worker, and returns where: one dict per replica (per slice above
    64): `replica, worker, slice, region, zone`.

    Fails, without a retry, when the job ends in another way than success; with `soft_fail` it is skipped then.
    """

    template_fields: Sequence[str] = ("job_id", "iris_conn_id")
    ui_color = "#e9f5df"

    def __init__(
        self,
        *,
        job_id: str,
        iris_conn_id: str = IrisHook.default_conn_name,
        poke_interval: float | timedelta = 10,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.job_id = job_id
        self.iris_conn_id = iris_conn_id
        self.deferrable = (
            conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable
        )

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        seen = self._look()
        if seen.complete:
            return list(seen.placement)
        self.defer(
            timeout=timedelta(seconds=self.timeout),
            trigger=IrisPlacementTrigger(self.iris_conn_id, self.job_id, self.poke_interval),
            method_name=self.execute_complete.__name__,
        )
        return None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if event.get("failure"):
            raise AirflowFailException(event["failure"])
        return event["placement"]

    def poke(self, context: Context) -> PokeReturnValue:
        seen = self._look()
        return PokeReturnValue(is_done=seen.complete, xcom_value=list(seen.placement) if seen.complete else None)

    def _look(self) -> Placed:
        client = IrisHook(self.iris_conn_id).get_conn()
        try:
            seen = placed_of(client.job_status(self.job_id), client.tasks(self.job_id))
            if seen.complete:
                seen = seen.located(client.workers())
        except IrisUnavailableError as error:
            # The sensor's own timeout bounds the waiting.
            self.log.warning("%s", error)
            return Placed()
        except FrayError as error:
            raise for_airflow(error) from None
        if seen.failure:
            raise AirflowFailException(seen.failure)
        self.log.info("%d of %d replicas are placed. %s", seen.count, seen.expected, seen.reason)
        return seen
