"""What the sensors share: three modes with the same outcomes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from fray_airflow import clock
from fray_airflow.errors import FrayError
from fray_airflow.hooks import IrisHook
from fray_airflow.questions import Look, ask
from fray_airflow.triggers.question import QuestionTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class QuestionSensor(BaseSensorOperator):
    """Asks its trigger's question, in `mode` "poke" or "reschedule" on a worker, or `deferrable` on a triggerer.

    poke_interval: 10 s, in the triggerer too. A controller that is away is waited for until `timeout`.
    Whatever cannot end well raises AirflowFailException, which is not retried and which `soft_fail` turns into a skip.
    """

    ui_color = "#e9f5df"

    def __init__(
        self,
        *,
        iris_conn_id: str = IrisHook.default_conn_name,
        poke_interval: float | timedelta = 10,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.iris_conn_id = iris_conn_id
        self.deferrable = (
            conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable
        )

    def trigger(self) -> QuestionTrigger:
        """The trigger that would wait in the triggerer, with the rendered arguments."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        try:
            return self._deferred(context) if self.deferrable else super().execute(context)
        except (AirflowSkipException, AirflowRescheduleException):
            raise
        except (AirflowSensorTimeout, AirflowFailException) as error:
            # Airflow's own loop lets a timeout pass never_fail, its resumption does not; here both are skips.
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise
        except Exception as error:
            if self.never_fail:
                raise AirflowSkipException(str(error)) from error
            raise

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        if event.get("failure"):
            raise AirflowFailException(event["failure"])
        return event[self.trigger().answer_key]

    def poke(self, context: Context) -> PokeReturnValue:
        look = self._look()
        if look.failure:
            raise AirflowFailException(look.failure)
        self.log.info("%s", look.text)
        return PokeReturnValue(is_done=look.done, xcom_value=look.value if look.done else None)

    def _deferred(self, context: Context) -> Any:
        first = self.poke(context)
        if not first.is_done:
            self.defer(
                timeout=timedelta(seconds=self.timeout),
                trigger=self.trigger(),
                method_name=self.execute_complete.__name__,
            )
        return first.xcom_value

    def _look(self) -> Look:
        try:
            # A client of its own for each look: a token may be replaced between two of them.
            with IrisHook(self.iris_conn_id).get_conn() as client:
                return ask(self.trigger().question, client, clock.now())
        except FrayError as error:
            return Look(failure=str(error))
