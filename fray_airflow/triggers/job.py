"""IrisJobTrigger: watches a submitted job to its end. The async driver of the lifecycle machine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from fray_airflow import clock
from fray_airflow.errors import FrayError, IrisAuthError, IrisError, JobFailedError, JobNotFoundError
from fray_airflow.hooks import IrisHook
from fray_airflow.hooks.secrets import hide, refuse_secrets, resolve
from fray_airflow.lifecycle import Action, Conversation, Finish, Submit, Wait
from fray_airflow.logs import LogPage
from fray_airflow.status import JobStatus
from fray_airflow.task_state import ask_current_job, ask_task_state, trigger_kill_was_meant
from fray_airflow.triggers.bookmark import Bookmark
from fray_airflow.triggers.log_writer import LogWriter
from fray_airflow.triggers.race import hold_back
from fray_airflow.triggers.subscription import Subscription

_AIRFLOW_CALLS_ON_KILL = hasattr(BaseTrigger, "on_kill")


class IrisJobTrigger(BaseTrigger):
    """Drives the same machine as the operator, which hands it over as one JSON value (`Conversation.to_json`).

    Its event has `result`, or `error` as IrisError.to_json wrote it, or `launch` where the next job is to be submitted,
    which only a worker can; with an end come the `facts` of its launch. `secrets` are references, as the operator's:
    Airflow stores the event, so that what holds one of their values is kept out of it. `unknown` takes arguments of
    newer versions, whose rows this one may have to run during an upgrade.
    """

    def __init__(
        self,
        iris_conn_id: str,
        launch: dict[str, Any],
        on_kill_action: str = "terminate",
        job_url: str = "",
        secrets: dict[str, str] | None = None,
        **unknown: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.iris_conn_id = iris_conn_id
        self.launch = launch
        self.on_kill_action = on_kill_action
        self.job_url = job_url
        self.secrets = secrets or {}
        self._talk: Conversation | None = None
        self._server = ""
        self._writer = LogWriter(lambda level, text: self.log.log(level, "%s", text))

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            "fray_airflow.triggers.job.IrisJobTrigger",
            {
                "iris_conn_id": self.iris_conn_id,
                "launch": self.launch,
                "on_kill_action": self.on_kill_action,
                "job_url": self.job_url,
                "secrets": self.secrets,
            },
        )

    @property
    def job_id(self) -> str:
        return str(self.launch["seen"]["job_id"])

    async def run(self) -> AsyncIterator[TriggerEvent]:
        started = time.monotonic()
        try:
            outcome = await self._outcome()
            await self._writer.flush()
        except asyncio.CancelledError:
            if not _AIRFLOW_CALLS_ON_KILL:
                # Before 3.3 this is all that a trigger hears, of a restart as of a kill; on_kill asks which it is.
                await asyncio.shield(self.on_kill())
            raise
        await hold_back(self, started)
        yield TriggerEvent({"v": 1, "job_url": self.job_url, **outcome})

    async def on_kill(self) -> None:
        """Called by Airflow when the deferred task is marked or cleared, and by mistake when not.

        A triggerer that stalled and comes back calls it for tasks that another one watches by now; then the task is
        still deferred with this very job. After a clear it may be deferred again too, but with the next try's job.
        """
        if self.on_kill_action == "keep" or self.task_instance is None:
            return
        state = await sync_to_async(ask_task_state)(self.task_instance)
        if not trigger_kill_was_meant(state) and not (state and await self._is_replaced()):
            self.log.warning(
                "Told to stop while the task is %s: %s goes on", state or "in an unknown state", self.job_id
            )
            return
        talk = self._talk or Conversation.resume(self.launch, clock=clock.now, tell=self._writer.tell)
        job_ids = talk.live_jobs() or [self.job_id]
        self.log.warning("The task is %s: terminating %s", state, ", ".join(job_ids))
        try:
            async with await IrisHook(self.iris_conn_id).get_async_conn() as client:
                for job_id in job_ids:
                    # One that is gone must not spare the others of its launch.
                    with suppress(JobNotFoundError):
                        await client.terminate(job_id)
        except FrayError as error:
            self.log.error("%s may still run: %s", ", ".join(job_ids), error)

    async def _is_replaced(self) -> bool:
        """Whether the task has another job by now, or a try that has none yet."""
        current = await sync_to_async(ask_current_job)(self.task_instance)
        return current is not None and current != self.job_id

    async def _outcome(self) -> dict[str, Any]:
        try:
            # First, so that the job's lines are masked too.
            secrets = await sync_to_async(resolve)(self.secrets) if self.secrets else {}
            end = await self._watch()
        except FrayError as error:
            # The connection is faulty: nothing that this trigger could wait for.
            return {"error": IrisError(str(error), job_id=self.job_id).to_json()}
        if isinstance(end, Submit) and self._talk is not None:
            return {"launch": self._talk.to_json()}
        assert isinstance(end, Finish)
        talk = self._talk
        told = _told(end, secrets, enveloped=talk is not None and talk.plan.result in ("first", "all"))
        return {**told, "facts": {**talk.facts(), "server": self._server}} if talk is not None else told

    async def _watch(self) -> Finish | Submit:
        bookmark = Bookmark(self.task_instance)
        self._talk = talk = await self._resumed(bookmark)
        subscription, renewed, behind = await Subscription.open(self.iris_conn_id), False, False
        self._server = subscription.server
        try:
            while not isinstance(action := talk.next(), Finish | Submit):
                await self._writer.flush(behind=behind)
                await bookmark.keep(talk.seen.job_id, talk.reading())
                reply = await _perform(subscription, action)
                if isinstance(reply, IrisAuthError) and reply.code == "unauthenticated" and not renewed:
                    # A token may have been replaced while we watched: read the connection again, once.
                    await subscription.renew()
                    renewed = True
                    continue
                # It may be replaced again, in a watch of weeks.
                renewed = renewed and not isinstance(reply, JobStatus)
                talk.hear(action, reply)
                behind = isinstance(reply, LogPage) and reply.full
        finally:
            await subscription.close()
        return action

    async def _resumed(self, bookmark: Bookmark) -> Conversation:
        """From where the worker stopped, or from where a trigger that died had come since."""
        launch = self.launch
        if kept := await bookmark.read(self.job_id):
            launch = {**launch, "lines": kept["lines"], "seen": {**launch["seen"], "log_cursor": kept["log_cursor"]}}
            text = "Another triggerer goes on here. The job's latest lines may be shown again."
            self._writer.tell(logging.WARNING, text)
        return Conversation.resume(launch, clock=clock.now, tell=self._writer.tell)


def _told(end: Finish, secrets: dict[str, str], *, enveloped: bool) -> dict[str, Any]:
    error = end.error
    try:
        if error is None and end.result is not None and secrets:
            refuse_secrets(end.result, secrets, enveloped=enveloped)
    except JobFailedError as refusal:
        error = refusal
    if error is None:
        return {"result": end.result}
    told = error.to_json()
    return {"error": {**told, "message": hide(told["message"], secrets)}}


async def _perform(subscription: Subscription, action: Action) -> Any:
    match action:
        case Wait(seconds):
            return await subscription.wait(seconds)
        case Submit() | Finish():
            raise TypeError(f"a trigger cannot {action!r}: only a worker has the author's code")
    try:
        return await action.on(subscription)
    except IrisError as error:
        return error
