"""What a case has in its hands: requests as raw protobufs, over the real client and its transport."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import pytest

from fray_airflow.errors import IrisError, JobExistsError
from fray_airflow.iris import IrisClient, calls
from fray_airflow.iris._gen import job_pb2, logging_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.operations import Operation
from fray_airflow.states import JobState

CASE_SECONDS = 90
"""How long a case waits for anything. A case needs 2 to 10 s of it when the machine is idle."""

_POLL_SECONDS = 0.25

SLEEP = ("sleep", "300")
"""A task that is still there when the case looks."""

CPU_HOST = {"key": "device-type", "value": {"string_value": "cpu"}}

NEVER = [CPU_HOST, {"key": "no-such-attribute", "value": {"string_value": "x"}}]
"""Constraints that no worker meets. With the first the autoscaler does not boot one machine of every kind for them."""


def tpu(variant: str, chips: int = 4) -> dict[str, Any]:
    """Resources of one replica on a TPU, as a case's `resources`."""
    return {**SMALL, "device": {"tpu": {"variant": variant, "count": chips}}}


def gpu(variant: str, count: int) -> dict[str, Any]:
    return {**SMALL, "device": {"gpu": {"variant": variant, "count": count}}}


SMALL = {"cpu_millicores": 100, "memory_bytes": 16 * 1024**2}


class WorkerLost(Exception):
    """The Iris gave up a worker that did not answer in time, which says nothing about the case that ran there."""


class GivenUp(Exception):
    """Nobody wants to know the result of this case any more."""


class StateWatch:
    """One GetJobState for all jobs that are waited for, so that a hundred cases cost the controller one call."""

    def __init__(self, client: IrisClient) -> None:
        self._client = client
        self._waiting: list[tuple[str, Callable[[JobState], bool], Future[JobState]]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="states")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_up()
        self._thread.join()

    def give_up(self) -> None:
        """Whoever waits now fails."""
        self._ended.set()

    def pause(self) -> None:
        """Until it is time for another look."""
        if self._ended.wait(_POLL_SECONDS):
            raise GivenUp

    def until(self, job_id: str, wanted: Callable[[JobState], bool]) -> JobState:
        future: Future[JobState] = Future()
        with self._lock:
            if self._ended.is_set():
                raise GivenUp
            self._waiting.append((job_id, wanted, future))
        return future.result(CASE_SECONDS)

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            with self._lock:
                waiting = list(self._waiting)
            if waiting:
                self._look(waiting)
        with self._lock:
            waiting = list(self._waiting)
        self._settle(waiting, lambda future: future.set_exception(GivenUp()))

    def _look(self, waiting: Sequence[tuple[str, Callable[[JobState], bool], Future[JobState]]]) -> None:
        try:
            states = self._client.job_states({job_id for job_id, _, _ in waiting})
        except IrisError as error:
            self._settle(waiting, lambda future, error=error: future.set_exception(error))
            return
        for entry in waiting:
            job_id, wanted, _ = entry
            if job_id in states and wanted(states[job_id]):
                self._settle([entry], lambda future, state=states[job_id]: future.set_result(state))

    def _settle(self, entries: Sequence[Any], settle: Callable[[Future[JobState]], None]) -> None:
        with self._lock:
            self._waiting = [entry for entry in self._waiting if entry not in entries]
        for _, _, future in entries:
            settle(future)


class Iris:
    """One Iris as one user sees it."""

    def __init__(self, client: IrisClient, states: StateWatch, user: str) -> None:
        self.client = client
        self.user = user
        self._states = states
        self._launched: set[str] = set()

    def another_user(self, suffix: str) -> Iris:
        other = Iris(self.client, self._states, f"{self.user}-{suffix}")
        # Whatever it launches, `end` of this one ends.
        other._launched = self._launched
        return other

    def end(self) -> None:
        """Nothing that was launched goes on, so that it takes no machine from other cases."""
        for job_id in self._launched:
            with contextlib.suppress(IrisError):
                self.terminate(job_id)

    # Calls

    def call(self, call: calls.Call, **fields: Any) -> Any:
        """The reply as protobuf. Raises IrisError with `code`."""
        return self.client.run(Operation(call, call.request(**fields).SerializeToString(), call.reply.FromString))

    def refused(self, call: calls.Call, **fields: Any) -> IrisError:
        """The error of a call that has to be refused."""
        with pytest.raises(IrisError) as caught:
            self.call(call, **fields)
        return caught.value

    def request(self, name: str = "job", argv: Sequence[str] = ("true",), **fields: Any) -> dict[str, Any]:
        """The fields of a small launch request of this user. A name with a slash is taken as it is."""
        defaults = {
            "name": name if "/" in name else f"/{self.user}/{name}",
            "entrypoint": {"run_command": {"argv": argv}},
            "resources": SMALL,
            "replicas": 1,
        }
        return {**defaults, **fields}

    def launch(self, name: str = "job", argv: Sequence[str] = ("true",), **fields: Any) -> str:
        """The new job's id."""
        request = self.request(name, argv, **fields)
        job_id, known = request["name"], request["name"] in self._launched
        self._launched.add(job_id)
        try:
            return self.call(calls.LAUNCH_JOB, **request).job_id
        except JobExistsError:
            # The client has sent the call again, since a starved server let the reply get lost.
            if known:
                raise
            return job_id

    def refused_launch(self, name: str = "job", argv: Sequence[str] = ("true",), **fields: Any) -> IrisError:
        return self.refused(calls.LAUNCH_JOB, **self.request(name, argv, **fields))

    def describe(self, job_id: str) -> Any:
        """GetJobStatus: the job, and its request as the controller keeps it."""
        return self.call(calls.GET_JOB_STATUS, job_id=job_id)

    def job(self, job_id: str) -> job_pb2.JobStatus:
        return self.describe(job_id).job

    def echo(self, job_id: str) -> Controller.LaunchJobRequest:
        return self.describe(job_id).request

    def tasks(self, job_id: str) -> list[job_pb2.TaskStatus]:
        return list(self.call(calls.LIST_TASKS, job_id=job_id).tasks)

    def task(self, job_id: str) -> job_pb2.TaskStatus:
        """The job's only task."""
        (task,) = self.tasks(job_id)
        return task

    def terminate(self, job_id: str) -> None:
        self.call(calls.TERMINATE_JOB, job_id=job_id)

    def log(self, source: str, **fields: Any) -> logging_pb2.FetchLogsResponse:
        """FetchLogs, by prefix unless said otherwise."""
        return self.call(calls.FETCH_LOGS, source=source, **{"match_scope": logging_pb2.MATCH_SCOPE_PREFIX, **fields})

    def attributes(self) -> dict[str, dict[str, str | int | float]]:
        """Of each worker, by its id."""
        return {worker.worker_id: dict(worker.attributes) for worker in self.client.workers()}

    # Waiting

    def finished(self, job_id: str) -> job_pb2.JobStatus:
        self._states.until(job_id, lambda state: state.finished)
        job = self.job(job_id)
        # A job that was run again elsewhere, or had failed before, does not say it itself.
        attempts = [attempt for task in self.tasks(job_id) for attempt in task.attempts]
        for error in (job.error, *(attempt.error for attempt in attempts)):
            if "worker reconcile failure threshold exceeded" in error:
                raise WorkerLost(error)
        return job

    def running(self, job_id: str) -> list[job_pb2.TaskStatus]:
        """The tasks, once all of them run."""
        self._states.until(job_id, lambda state: state is not JobState.PENDING)
        return self.until(
            lambda: self.tasks(job_id), lambda tasks: all(task.state == job_pb2.TASK_STATE_RUNNING for task in tasks)
        )

    def pending(self, job_id: str, text: str) -> job_pb2.JobStatus:
        """The job, once it says `text` about why it waits."""
        return self.until(lambda: self.job(job_id), lambda job: text in job.pending_reason)

    def lines(self, job_id: str, count: int) -> list[logging_pb2.LogEntry]:
        """The log of a job, once it has `count` lines."""
        return list(self.until(lambda: self.log(f"{job_id}/"), lambda log: len(log.entries) >= count).entries)

    def printed(self, job_id: str, count: int = 1) -> list[str]:
        """What a job printed, sorted: lines of two tasks come in any order."""
        return sorted(line.data for line in self.lines(job_id, count))

    def until[T](self, look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
        end = time.monotonic() + CASE_SECONDS
        while not wanted(seen := look()):
            assert time.monotonic() < end, f"still not so after {CASE_SECONDS} s: {seen}"
            self._states.pause()
        return seen
