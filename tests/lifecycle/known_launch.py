"""States of knowledge for unit tests: short to write, complete enough to decide on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fray_airflow.identity import LAUNCH_ENV, LaunchIdentity
from fray_airflow.lifecycle import Plan, PlannedJob, ReadStatus, ReadTasks, ReadWorkers, Seen, Submit, learn
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import AttemptStatus, JobStatus, TaskStatus, Worker

T0 = datetime(2030, 1, 1, tzinfo=UTC)
JOB_ID = "/me/job"
JOB = PlannedJob(JOB_ID, "place.life-1")
EARLIER = PlannedJob("/me/job-0", "place.life-0")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def plan(**changes: Any) -> Plan:
    return Plan(**{"job": JOB, **changes})


def attempt(number: int, state: TaskState, start: float | None = None, end: float | None = None, **facts: Any):
    times = {"started_at": None if start is None else at(start), "finished_at": None if end is None else at(end)}
    return AttemptStatus(number, state, **times, **facts)


def task(index: int, state: TaskState, *attempts: AttemptStatus, worker: str = "w", **facts: Any) -> TaskStatus:
    started = attempts[-1].started_at if attempts else None
    return TaskStatus(f"{JOB_ID}/{index}", state, worker_id=worker, started_at=started, attempts=attempts, **facts)


def status(state: JobState, *, token: str = JOB.token, job_id: str = JOB_ID, **facts: Any) -> JobStatus:
    return JobStatus(job_id, state, request_env={LAUNCH_ENV: token}, **{"submitted_at": T0, **facts})


def followed(job_status: JobStatus, *tasks: TaskStatus, workers: tuple[Worker, ...] = (), seconds: float = 0) -> Seen:
    """What is known when a job that was submitted at T0 has been read once, `seconds` later."""
    seen = learn(Seen(found={JOB_ID: None}), Submit(JOB), JOB_ID, T0)
    seen = learn(seen, ReadStatus(JOB_ID), job_status, at(seconds))
    seen = learn(seen, ReadTasks(JOB_ID), tasks, at(seconds))
    return learn(seen, ReadWorkers(), workers, at(seconds))


def identity(try_number: int = 1, **changes: Any) -> LaunchIdentity:
    facts = {"deployment": "here", "user": "me", "dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": -1}
    return LaunchIdentity(**{**facts, "try_number": try_number, "run_start": "2030", **changes})
