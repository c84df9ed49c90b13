"""IrisPlacementTrigger: waits until all replicas of a job are placed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from fray_airflow.errors import FrayError, IrisUnavailableError
from fray_airflow.hooks import IrisHook
from fray_airflow.lifecycle.placed import Placed, placed_of
from fray_airflow.triggers.race import hold_back


class IrisPlacementTrigger(BaseTrigger):
    """Its event has `placement`, or `failure` as a text when placement cannot come any more."""

    def __init__(self, iris_conn_id: str, job_id: str, poll_interval: float = 10, **unknown: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.iris_conn_id = iris_conn_id
        self.job_id = job_id
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "fray_airflow.triggers.placement.IrisPlacementTrigger",
            {"iris_conn_id": self.iris_conn_id, "job_id": self.job_id, "poll_interval": self.poll_interval},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        started = time.monotonic()
        try:
            async with await IrisHook(self.iris_conn_id).get_async_conn() as client:
                while not (seen := await self._look(client)).settled:
                    await asyncio.sleep(self.poll_interval)
        except FrayError as error:
            seen = Placed(failure=str(error))
        await hold_back(self, started)
        yield TriggerEvent({"v": 1, "failure": seen.failure} if seen.failure else {"v": 1, "placement": seen.placement})

    async def _look(self, client: Any) -> Placed:
        try:
            status, tasks = await client.job_status(self.job_id), await client.tasks(self.job_id)
            placed = placed_of(status, tasks)
            return placed.located(await client.workers()) if placed.complete else placed
        except IrisUnavailableError as error:
            # The sensor's own timeout bounds the waiting.
            self.log.warning("%s", error)
            return Placed()
