"""What a task instance means to run, settled before the first call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fray_airflow.lifecycle.log_view import ALL_LINES, LogOptions


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job under the name it will have, and the token that proves it ours."""

    job_id: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One launch.

    jobs: what belongs to this try; one job.
    earlier: the jobs of earlier tries of this life of the task, newest first. One that still runs, or that succeeded
        while nobody watched, is adopted instead of launched again.
    former: the jobs of tries before the task was cleared. One that still runs is terminated before ours is launched.
    logs: which of the job's lines are shown.
    result: whose return value is awaited: "none", "first" (replica 0) or "all".
    last_try: nobody comes after this try to adopt a job that is left running.
    replicas, chips_per_replica: of each job.
    poll_interval: seconds between looks at a running job.
    placement_timeout: seconds from submission until all replicas have been placed once.
    job_timeout: seconds that Iris lets one attempt run; here only to tell what ended it.
    deadline: when the author's execution_timeout ends the whole.
    outage_tolerance: seconds without any answer before the watching gives up. The job goes on.
    """

    jobs: tuple[PlannedJob, ...]
    earlier: tuple[PlannedJob, ...] = ()
    former: tuple[PlannedJob, ...] = ()
    logs: LogOptions = ALL_LINES
    result: str = "none"
    last_try: bool = False
    replicas: int = 1
    chips_per_replica: int = 0
    poll_interval: float = 10
    placement_timeout: float | None = None
    job_timeout: float | None = None
    deadline: datetime | None = None
    outage_tolerance: float = 3600

    @property
    def job(self) -> PlannedJob:
        return self.jobs[0]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, so that a trigger can carry the plan."""
        return {
            "jobs": [[job.job_id, job.token] for job in self.jobs],
            "logs": self.logs.to_json(),
            "result": self.result,
            "last_try": self.last_try,
            "replicas": self.replicas,
            "chips_per_replica": self.chips_per_replica,
            "poll_interval": self.poll_interval,
            "placement_timeout": self.placement_timeout,
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
        known["jobs"] = tuple(PlannedJob(*job) for job in value["jobs"])
        known["logs"] = LogOptions.from_json(value.get("logs") or {})
        known["deadline"] = value.get("deadline") and datetime.fromisoformat(value["deadline"])
        return Plan(**known)
