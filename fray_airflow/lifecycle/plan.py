"""What a task instance means to run, settled before the first call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fray_airflow.identity import name_at
from fray_airflow.lifecycle.log_view import ALL_LINES, LogOptions
from fray_airflow.rung import Rung


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job under the name it will have, and the token that proves it ours."""

    job_id: str
    token: str

    def at(self, round: int) -> PlannedJob:
        """The job of a later round of the same try."""
        return PlannedJob(name_at(self.job_id, round), self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one try launches.

    job: its first job, from whose name those of later rounds and of further slices follow.
    rungs: the choices of machines, best first.
    earlier: the jobs of earlier tries of this life of the task, newest first. One that still runs, or that succeeded
        while nobody watched, is adopted instead of launched again.
    former: the jobs of tries before the task was cleared. One that still runs is terminated before ours is launched.
    logs: which of the job's lines are shown.
    result: whose return value, or pushed file, is awaited: "none", "first" (replica 0) or "all"; "uri" is not awaited
        either, since Airflow reads it elsewhere.
    result_of: what is to send it, "function" or "command": for the error of one that does not.
    last_try: nobody comes after this try to adopt a job that is left running.
    poll_interval: seconds between looks at a running job.
    placement_timeout: seconds from submission until all replicas have been placed once, on each rung.
    hold_timeout: seconds that some slices are kept while others are not placed.
    slice_failures, slice_preemptions: how often all slices are launched again after one failed, or lost its machines.
    job_timeout: seconds that Iris lets one attempt run; here only to tell what ended it.
    deadline: when the author's execution_timeout ends the whole.
    outage_tolerance: seconds without any answer before the watching gives up. The job goes on.
    """

    job: PlannedJob
    rungs: tuple[Rung, ...] = (Rung(),)
    earlier: tuple[PlannedJob, ...] = ()
    former: tuple[PlannedJob, ...] = ()
    logs: LogOptions = ALL_LINES
    result: str = "none"
    result_of: str = "function"
    last_try: bool = False
    poll_interval: float = 10
    placement_timeout: float | None = None
    hold_timeout: float = 600
    slice_failures: int = 0
    slice_preemptions: int = 0
    job_timeout: float | None = None
    deadline: datetime | None = None
    outage_tolerance: float = 3600

    @property
    def has_rounds(self) -> bool:
        """Whether one try may launch more than once."""
        return len(self.rungs) > 1 or self.has_slices

    @property
    def has_slices(self) -> bool:
        return any(rung.slices > 1 for rung in self.rungs)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, so that a trigger can carry the plan."""
        return {
            "job": [self.job.job_id, self.job.token],
            "rungs": [rung.to_json() for rung in self.rungs],
            "logs": self.logs.to_json(),
            "result": self.result,
            "result_of": self.result_of,
            "last_try": self.last_try,
            "poll_interval": self.poll_interval,
            "placement_timeout": self.placement_timeout,
            "hold_timeout": self.hold_timeout,
            "slice_failures": self.slice_failures,
            "slice_preemptions": self.slice_preemptions,
            "job_timeout": self.job_timeout,
            "deadline": self.deadline and self.deadline.isoformat(),
            "outage_tolerance": self.outage_tolerance,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Plan:
        """Keys that are missing (an older writer) take their defaults, unknown ones (a newer one) are ignored.

        `earlier` and `former` do not travel: once there is a job to watch, nobody looks for another.
        """
        known = {
            key: value[key] for key in Plan.__dataclass_fields__ if key in value and key not in ("earlier", "former")
        }
        known["job"] = PlannedJob(*value["job"])
        known["rungs"] = tuple(map(Rung.from_json, value.get("rungs") or ())) or (Rung(),)
        known["logs"] = LogOptions.from_json(value.get("logs") or {})
        known["deadline"] = value.get("deadline") and datetime.fromisoformat(value["deadline"])
        return Plan(**known)
