"""What is known of a launch. `learn` is the only way it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from fray_airflow.errors import IrisError, JobExistsError
from fray_airflow.lifecycle.rounds import FIRST_ROUND, Round
from fray_airflow.logs import LogCursor, LogLine
from fray_airflow.results import Envelope
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import JobStatus, TaskStatus, Worker

STATUS, TASKS, WORKERS, BANDS, LOGS = "status", "tasks", "workers", "bands", "logs"

SETBACK = (TaskState.FAILED, TaskState.WORKER_FAILED, TaskState.PREEMPTED)
"""How an attempt ends that people want to know of; replicas taken down with others only follow."""


class Stop(StrEnum):
    """Why a launch is given up before its job ends."""

    DEADLINE = "the task's execution_timeout has passed"
    PLACEMENT = "its placement_timeout has passed"
    HOLD = "only some of its slices are placed, and others may wait for these"
    KILLED = "the task was marked or cleared in Airflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Facts, and which of them are due to be read again.

    found: jobs under the planned names; None for a name that is free. A name not in it was not looked up yet.
    round: which launch of this try all that follows is about. passed: what became of those before it.
    rung_since: when the first launch on this rung was submitted, if that is not this one.
    not_before: when the next one may be submitted.
    job_id: the job that is ours now. since: when we submitted it, or when its submitter did.
    placed_at, running_at: when all replicas were first seen placed, and running or beyond.
    partial_since: since when some slices are placed while others are not.
    advice: what to do about a gang that no worker can ever take, while its reason for waiting says so.
    stale: the job changed since its replicas were read.
    bands: by job of a launch with several, in which priority band it ran once all did; read once.
    places, setbacks: where all replicas were last seen; per replica its latest attempt that is known to have failed.
    pages: how many full pages of its log were read since the last look at its state.
    away_since, missing_since: since when no call succeeds; since when the controller does not know the job.
    back_at: when a call succeeded again after others had not.
    unsure: a submission was not answered.
    pause: the last call was not answered, so wait before the next.
    finished_at: when its end was seen, and again when its replicas were read after it.
    quiet, deaf: the last read of the log brought nothing; it failed.
    results, asked, unread: what functions returned or raised, by replica; who was asked since the last wait, with or
        without success; why the last asking failed.
    stop, terminated: why the job is ended by us; it was told so. farewell: it was tried once, at least.
    """

    found: Mapping[str, JobStatus | None] = field(default_factory=dict)
    round: Round = FIRST_ROUND
    passed: tuple[str, ...] = ()
    rung_since: datetime | None = None
    not_before: datetime | None = None
    refused: JobExistsError | None = None
    failed: IrisError | None = None
    job_id: str = ""
    adopted: bool = False
    since: datetime | None = None
    status: JobStatus | None = None
    tasks: tuple[TaskStatus, ...] = ()
    workers: Mapping[str, Worker] = field(default_factory=dict)
    due: frozenset[str] = frozenset()
    advice: str = ""
    stale: bool = False
    bands: Mapping[str, str] | None = None
    places: Mapping[str, int] = field(default_factory=dict)
    setbacks: Mapping[int, int] = field(default_factory=dict)
    cursor: LogCursor | None = None
    pages: int = 0
    has_result: bool = False
    result: Any = None
    placed_at: datetime | None = None
    running_at: datetime | None = None
    partial_since: datetime | None = None
    away_since: datetime | None = None
    missing_since: datetime | None = None
    back_at: datetime | None = None
    unsure: bool = False
    pause: bool = False
    finished_at: datetime | None = None
    quiet: bool = False
    deaf: bool = False
    tail: tuple[LogLine, ...] | None = None
    results: Mapping[int, Envelope] = field(default_factory=dict)
    asked: frozenset[int] = frozenset()
    unread: IrisError | None = None
    stop: Stop | None = None
    terminated: bool = False
    farewell: bool = False

    @property
    def succeeded(self) -> bool:
        return self.status is not None and self.status.state is JobState.SUCCEEDED

    def stopped(self, stop: Stop) -> Seen:
        return replace(self, stop=stop)

    def moved_on(self, round: Round, why: str, not_before: datetime | None = None) -> Seen:
        """To the next launch of this try: what was known of the last one's job counts no more."""
        same_rung = round.rung == self.round.rung
        return Seen(
            found=self.found,
            round=round,
            passed=(*self.passed, why),
            rung_since=self.rung_since or self.since if same_rung else None,
            not_before=not_before,
            workers=self.workers,
        )

    def to_json(self) -> dict[str, Any]:
        """What must survive a change of driver, as plain JSON values; the rest is read again."""
        return {
            "round": self.round.to_json(),
            "passed": list(self.passed),
            "rung_since": _iso(self.rung_since),
            "not_before": _iso(self.not_before),
            "job_id": self.job_id,
            "since": _iso(self.since),
            "away_since": _iso(self.away_since),
            "missing_since": _iso(self.missing_since),
            "adopted": self.adopted,
            "state": int(self.status.state) if self.status else 0,
            "pending_reason": self.status.pending_reason if self.status else "",
            "advice": self.advice,
            "bands": self.bands,
            "placed_at": _iso(self.placed_at),
            "running_at": _iso(self.running_at),
            "partial_since": _iso(self.partial_since),
            "places": dict(self.places),
            "setbacks": {str(replica): attempt for replica, attempt in self.setbacks.items()},
            "log_cursor": self.cursor and self.cursor.to_json(),
            "has_result": self.has_result,
            "result": self.result,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Seen:
        """Goes on where the writer stopped. Missing keys take their defaults, unknown ones are ignored."""
        job_id = str(value["job_id"])
        cursor = value.get("log_cursor")
        # Enough to know what has been told already; the next read replaces it.
        status = JobStatus(job_id, JobState(value.get("state", 0)), pending_reason=value.get("pending_reason", ""))
        return Seen(
            round=Round.from_json(value.get("round") or {}),
            passed=tuple(value.get("passed") or ()),
            rung_since=_moment(value.get("rung_since")),
            not_before=_moment(value.get("not_before")),
            job_id=job_id,
            since=_moment(value.get("since")),
            away_since=_moment(value.get("away_since")),
            missing_since=_moment(value.get("missing_since")),
            adopted=bool(value.get("adopted")),
            status=status if job_id else None,
            advice=str(value.get("advice") or ""),
            bands=value.get("bands"),
            due=frozenset({STATUS}) if job_id else frozenset(),
            stale=bool(job_id),
            places=dict(value.get("places") or {}),
            setbacks={int(replica): int(attempt) for replica, attempt in (value.get("setbacks") or {}).items()},
            cursor=LogCursor.from_json(cursor) if cursor else None,
            placed_at=_moment(value.get("placed_at")),
            running_at=_moment(value.get("running_at")),
            partial_since=_moment(value.get("partial_since")),
            has_result=bool(value.get("has_result")),
            result=value.get("result"),
        )


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
