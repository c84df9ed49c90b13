"""What sensors ask of an Iris, each question written once: a worker answers it in pokes, a triggerer in its loop.

Pure: a question yields calls, which take the client, and returns a Look.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, get_args

from fray_airflow.capacity import Capacity
from fray_airflow.errors import PASSING_CODES, FrayError, InvalidSpecError, IrisError, IrisUnavailableError
from fray_airflow.gangs import level_fault
from fray_airflow.lifecycle.placed import Placed, ended, placed_of
from fray_airflow.plain import resource_config_from
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus
from fray_airflow.steps import afollow, follow

Call = Callable[[Any], Any]

AwaitedState = Literal["running", "succeeded", "finished"]
AWAITED_STATES: tuple[str, ...] = get_args(AwaitedState)

_JOB_ID = re.compile(r"/[^/\s]+(/[^/\s]+)+")


@dataclass(frozen=True, slots=True)
class Look:
    """One answer. With `done`, `value` is what was waited for; `failure` says why it cannot come; else wait on."""

    text: str = ""
    done: bool = False
    value: Any = None
    failure: str = ""

    @property
    def settled(self) -> bool:
        return self.done or bool(self.failure)


class Question(Protocol):
    def steps(self, now: datetime) -> Generator[Call, Any, Look]:
        """Raises FrayError where the question is wrong, or where the answer would stay an error."""


@dataclass(frozen=True, slots=True)
class PlacementQuestion:
    """Are all replicas placed, and have they been for `stable_for` seconds?"""

    job_id: str
    stable_for: float = 0

    def steps(self, now: datetime) -> Generator[Call, Any, Look]:
        _check_job_id(self.job_id)
        status: JobStatus = yield lambda client: client.job_status(self.job_id)
        seen: Placed = placed_of(status, (yield lambda client: client.tasks(self.job_id)))
        if seen.failure:
            return Look(failure=seen.failure)
        text = f"{seen.count} of {max(seen.expected, len(seen.tasks))} replicas are placed"
        if not seen.held(timedelta(seconds=self.stable_for), now):
            return Look(". ".join(part for part in (self._told(text, seen, now), seen.reason) if part))
        seen = seen.located((yield lambda client: client.workers()))
        return Look(text, done=True, value=list(seen.placement))

    def _told(self, text: str, seen: Placed, now: datetime) -> str:
        if not seen.complete:
            return text
        if seen.since is None:
            return f"{text}, not all of them have begun"
        return f"{text}, for {max(0, (now - seen.since).total_seconds()):.0f} of {self.stable_for:g} s"


@dataclass(frozen=True, slots=True)
class JobStateQuestion:
    """Has the job come to `state`: "running", "succeeded", or "finished" in whatever way?"""

    job_id: str
    state: str = "succeeded"

    def steps(self, now: datetime) -> Generator[Call, Any, Look]:
        _check_job_id(self.job_id)
        if self.state not in AWAITED_STATES:
            raise InvalidSpecError(
                "IrisJobSensor", [f"state={self.state!r} is none of {', '.join(AWAITED_STATES)}; choose one of these"]
            )
        status: JobStatus = yield lambda client: client.job_status(self.job_id)
        reason = " ".join(status.pending_reason.split())
        text = f"{self.job_id} is {status.state}{f': {reason}' if reason else ''}"
        if self._reached(status.state):
            return Look(text, done=True, value={"job_id": status.job_id, "state": status.state.name})
        return Look(text, failure=ended(status) if status.state.finished else "")

    def _reached(self, state: JobState) -> bool:
        if self.state == "finished":
            return state.finished
        # Between two looks a job may have run and be done.
        return state is JobState.SUCCEEDED or (self.state == "running" and state is JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """Could a job of this shape be placed now? Without `allow_scale_up` on machines that are there already."""

    resource_config: Any
    allow_scale_up: bool = True
    gpu_gang_level: str | None = None

    def steps(self, now: datetime) -> Generator[Call, Any, Look]:
        if fault := level_fault(self.gpu_gang_level):
            raise InvalidSpecError("IrisCapacitySensor", [fault])
        config = resource_config_from(self.resource_config)
        found: Capacity = yield lambda client: client.capacity(config, gpu_gang_level=self.gpu_gang_level)
        if not found.possible:
            return Look(failure=f"Waiting will not help: {found.text}.")
        enough = found.fits if self.allow_scale_up else found.free >= found.wanted
        return Look(found.text, done=enough, value=found.to_json())


def ask(question: Question, client: Any, now: datetime) -> Look:
    """One look with the sync client. Never raises a FrayError."""
    try:
        return follow(question.steps(now), lambda call: call(client))
    except FrayError as error:
        return _look_of(error)


async def aask(question: Question, client: Any, now: datetime) -> Look:
    """The same with the async client. Raises IrisAuthError "unauthenticated", so that a token can be read again."""

    def perform(call: Call) -> Awaitable[Any]:
        answer: Awaitable[Any] = call(client)
        return answer

    try:
        return await afollow(question.steps(now), perform)
    except FrayError as error:
        if is_stale_token(error):
            raise
        return _look_of(error)


def is_stale_token(error: FrayError) -> bool:
    return isinstance(error, IrisError) and error.code == "unauthenticated"


def _look_of(error: FrayError) -> Look:
    passing = isinstance(error, IrisUnavailableError) or (isinstance(error, IrisError) and error.code in PASSING_CODES)
    return Look(str(error)) if passing else Look(failure=str(error))


def _check_job_id(job_id: Any) -> None:
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id):
        raise InvalidSpecError(
            "job_id",
            [f'{job_id!r} is not a job id like "/airflow/train"; the task that submits pushes it as XCom "job_id"'],
        )
