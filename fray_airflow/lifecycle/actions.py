"""What a driver can be told to do.

`on(client)` makes the call: it returns a value from the sync client and an awaitable from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fray_airflow.errors import IrisError
from fray_airflow.lifecycle.plan import PlannedJob
from fray_airflow.lifecycle.rounds import FIRST_ROUND, Round
from fray_airflow.logs import LogCursor

TAIL_LINES = 20
"""Lines of a failed replica that its error shows."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Is there a job under this name, and whose is it?"""

    job_id: str

    def on(self, client: Any) -> Any:
        return client.job_status(self.job_id)


@dataclass(frozen=True, slots=True)
class Submit:
    """Launch the job. `replace` takes the name from our own job of an earlier life. Only a worker can do this.

    `slice` is which of a round's jobs this is; None means all of them, for which the machine asks.
    """

    job: PlannedJob
    replace: bool = False
    round: Round = FIRST_ROUND
    slice: int | None = None


@dataclass(frozen=True, slots=True)
class ReadStatus:
    job_id: str

    def on(self, client: Any) -> Any:
        return client.job_status(self.job_id)


@dataclass(frozen=True, slots=True)
class ReadTasks:
    job_id: str

    def on(self, client: Any) -> Any:
        return client.tasks(self.job_id)


@dataclass(frozen=True, slots=True)
class ReadWorkers:
    """Where the workers are that the job has been placed on."""

    def on(self, client: Any) -> Any:
        return client.workers()


@dataclass(frozen=True, slots=True)
class ReadBands:
    """In which priority bands the jobs of a launch run. What their requests say is what was asked for."""

    job_ids: tuple[str, ...]

    def on(self, client: Any) -> Any:
        return client.bands(self.job_ids)


@dataclass(frozen=True, slots=True)
class ReadLogs:
    cursor: LogCursor

    def on(self, client: Any) -> Any:
        return client.logs(self.cursor.job_id, self.cursor)


@dataclass(frozen=True, slots=True)
class ReadTail:
    """The last lines of the replica that failed, of one job."""

    cursor: LogCursor
    replica: int

    def on(self, client: Any) -> Any:
        return client.log_tail(self.cursor.job_id, self.replica, since_ms=self.cursor.since_ms, lines=TAIL_LINES)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """What the function returned, or raised, in one attempt of one replica."""

    job_id: str
    replica: int
    attempt: int
    since_ms: int

    def on(self, client: Any) -> Any:
        return client.result_entries(self.job_id, self.replica, self.attempt, since_ms=self.since_ms)


@dataclass(frozen=True, slots=True)
class Terminate:
    job_id: str

    def on(self, client: Any) -> Any:
        return client.terminate(self.job_id)


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of the launch: a result, or the error to raise."""

    result: Mapping[str, Any] | None = None
    error: IrisError | None = None


Call = LookUp | ReadStatus | ReadTasks | ReadWorkers | ReadBands | ReadLogs | ReadTail | ReadResult | Terminate
Action = Call | Submit | Wait | Finish
