"""What the sensors' triggers share: the loop that asks. None of them ever cancels a job."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from fray_airflow import clock
from fray_airflow.errors import FrayError
from fray_airflow.questions import Look, Question, aask, is_stale_token
from fray_airflow.triggers.race import hold_back
from fray_airflow.triggers.subscription import Subscription


class QuestionTrigger(BaseTrigger):
    """Asks `question` every `poll_interval` seconds until it is settled. Its event has the answer under `answer_key`,
    or `failure` as a text. There is no end to the asking but the deferral's timeout.
    """

    path: ClassVar[str]
    """Where deferred tasks find the class: stored with them, so it never moves."""
    answer_key: ClassVar[str]

    def __init__(self, iris_conn_id: str, question: Question, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.iris_conn_id = iris_conn_id
        self.question = question
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        asked = asdict(self.question)  # type: ignore[call-overload]  # each question is a dataclass
        return self.path, {"iris_conn_id": self.iris_conn_id, "poll_interval": self.poll_interval, **asked}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        started = time.monotonic()
        look = await self._settled()
        await hold_back(self, started)
        yield TriggerEvent({"v": 1, "failure": look.failure} if look.failure else {"v": 1, self.answer_key: look.value})

    async def _settled(self) -> Look:
        told = ""
        try:
            subscription, renewed = await Subscription.open(self.iris_conn_id), False
            try:
                while True:
                    try:
                        look = await aask(self.question, subscription, clock.now())
                    except FrayError as error:
                        if renewed or not is_stale_token(error):
                            raise
                        # A token may have been replaced while we watched: read the connection again.
                        await subscription.renew()
                        renewed = True
                        continue
                    if look.settled:
                        return look
                    if look.text != told:
                        self.log.info("%s", look.text)
                    told, renewed = look.text, False
                    await subscription.wait(self.poll_interval)
            finally:
                await subscription.close()
        except FrayError as error:
            return Look(failure=str(error))
