"""IrisJobTrigger: watches a submitted job to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from fray_airflow.errors import FrayError, IrisError
from fray_airflow.hooks import IrisHook
from fray_airflow.lifecycle import Action, Conversation, Finish, Submit, Wait
from fray_airflow.task_state import read_task_state, somebody_asked


class IrisJobTrigger(BaseTrigger):
    """Drives the same machine as the operator, which hands it over as one JSON value (`Conversation.to_json`).

    Its event has `result`, or `error` as IrisError.to_json wrote it. `unknown` takes arguments of newer versions, whose
    rows this one may have to run during an upgrade.
    """

    def __init__(
        self,
        iris_conn_id: str,
        launch: dict[str, Any],
        on_kill_action: str = "terminate",
        job_url: str = "",
        **unknown: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.iris_conn_id = iris_conn_id
        self.launch = launch
        self.on_kill_action = on_kill_action
        self.job_url = job_url

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "fray_airflow.triggers.job.IrisJobTrigger",
            {
                "iris_conn_id": self.iris_conn_id,
                "launch": self.launch,
                "on_kill_action": self.on_kill_action,
                "job_url": self.job_url,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent({"v": 1, "job_url": self.job_url, **await self._outcome()})

    async def on_kill(self) -> None:
        """Called by Airflow from 3.3 on when the deferred task is marked or cleared, and by mistake when not."""
        job_id = str(self.launch["seen"]["job_id"])
        if self.on_kill_action == "keep":
            return
        state = await asyncio.to_thread(read_task_state, self.task_instance) if self.task_instance else None
        if not somebody_asked(state):
            self.log.warning("Told to stop while the task is %s: %s goes on", state, job_id)
            return
        self.log.warning("The task is %s: terminating %s", state, job_id)
        client = await IrisHook(self.iris_conn_id).get_async_conn()
        async with client:
            await client.terminate(job_id)

    async def _outcome(self) -> dict[str, Any]:
        try:
            end = await self._watch()
        except FrayError as error:
            # The connection is faulty: nothing that this trigger could wait for.
            return {"error": IrisError(str(error), job_id=str(self.launch["seen"]["job_id"])).to_json()}
        return {"error": end.error.to_json()} if end.error is not None else {"result": end.result}

    async def _watch(self) -> Finish:
        talk = Conversation.resume(self.launch, clock=_now, tell=self._tell)
        async with await IrisHook(self.iris_conn_id).get_async_conn() as client:
            while not isinstance(action := talk.next(), Finish):
                talk.hear(action, await _perform(client, action))
        return action

    def _tell(self, level: int, text: str) -> None:
        self.log.log(level, "%s", text)


async def _perform(client: Any, action: Action) -> Any:
    match action:
        case Wait(seconds):
            return await asyncio.sleep(seconds)
        case Submit() | Finish():
            raise TypeError(f"a trigger cannot {action!r}: only a worker has the author's code")
    try:
        return await action.on(client)
    except IrisError as error:
        return error


def _now() -> datetime:
    return datetime.now(UTC)
