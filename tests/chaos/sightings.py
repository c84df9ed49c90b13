"""What Iris itself says of its jobs, asked past the proxy several times a second."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import datetime

from workload import TASK_ENV

from fray_airflow.errors import FrayError
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris import IrisClient, JobState
from fray_airflow.status import JobStatus

_INTERVAL_SECONDS = 0.3


@dataclass
class Job:
    """One submission: a job that was replaced under its name is another one. `task` is the author's own mark."""

    job_id: str
    submitted_at: datetime
    task: str
    token: str
    state: JobState = JobState.PENDING
    finished_at: datetime | None = None
    gone: bool = False

    @property
    def place(self) -> str:
        return self.token.partition(".")[0]

    @property
    def live(self) -> bool:
        return not self.gone and not self.state.finished

    def __str__(self) -> str:
        times = f"{self.submitted_at:%H:%M:%S.%f}"[:-3] + (
            f"-{self.finished_at:%H:%M:%S.%f}"[:-3] if self.finished_at else "-"
        )
        return f"{self.job_id} [{self.token}] {times} {self.state}{' (replaced)' if self.gone else ''}"


@dataclass
class Sightings:
    """Every job that was ever seen, and every moment at which a task instance had two live ones."""

    target: str
    jobs: dict[tuple[str, datetime], Job] = field(default_factory=dict)
    doubles: dict[tuple[str, ...], str] = field(default_factory=dict)
    samples: int = 0
    missed: int = 0

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._client = IrisClient(self.target)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """One last look included, so that what is read afterwards is the end."""
        self._ended.set()
        self._thread.join(30)
        self._client.close()

    def live(self) -> list[Job]:
        return [job for job in list(self.jobs.values()) if job.live]

    def of(self, task: str) -> list[Job]:
        return sorted((job for job in self.jobs.values() if job.task == task), key=lambda job: job.submitted_at)

    def _watch(self) -> None:
        while True:
            last = self._ended.is_set()
            started = time.monotonic()
            try:
                self._look()
                self.samples += 1
            except FrayError:
                self.missed += 1
            if last:
                return
            self._ended.wait(max(0.0, _INTERVAL_SECONDS - (time.monotonic() - started)))

    def _look(self) -> None:
        listed = self._client.jobs(limit=500)
        seen = set()
        for status in listed:
            key = (status.job_id, status.submitted_at)
            job = self.jobs.get(key) or self._new(status)
            if job is not None:
                seen.add(key)
                job.state, job.finished_at = status.state, status.finished_at
        for key, job in self.jobs.items():
            job.gone = key not in seen
        self._compare()

    def _new(self, listed: JobStatus) -> Job | None:
        """The list has no environments. A job that was replaced between the two calls is met at the next look."""
        status = self._client.job_status(listed.job_id)
        if status.submitted_at != listed.submitted_at:
            return None
        env = status.request_env
        job = Job(listed.job_id, listed.submitted_at, env.get(TASK_ENV, "?"), env.get(LAUNCH_ENV, ""))
        self.jobs[listed.job_id, listed.submitted_at] = job
        return job

    def _compare(self) -> None:
        live = self.live()
        for by in ("place", "task"):
            groups: dict[str, list[Job]] = {}
            for job in live:
                groups.setdefault(getattr(job, by), []).append(job)
            for name, jobs in groups.items():
                if len(jobs) > 1:
                    at = datetime.now().astimezone()
                    key = tuple(sorted(job.job_id for job in jobs))
                    self.doubles.setdefault(key, f"at {at:%H:%M:%S} {by} {name} has " + " and ".join(map(str, jobs)))
