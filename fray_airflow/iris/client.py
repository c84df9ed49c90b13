"""IrisClient and AsyncIrisClient: the operations, sent over a carrier, with retries and our errors."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from google.protobuf.message import DecodeError
from tenacity import AsyncRetrying, Retrying

from fray_airflow.capacity import Capacity
from fray_airflow.errors import IrisError, JobExistsError
from fray_airflow.from_fray import from_fray
from fray_airflow.iris import operations
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris._gen.vm_pb2 import AutoscalerStatus
from fray_airflow.iris.calls import LOG_SERVICE
from fray_airflow.iris.carriers import AsyncCarrier, Carrier
from fray_airflow.iris.failure import WireFailure, to_error
from fray_airflow.iris.handle import AsyncJobHandle, JobHandle
from fray_airflow.iris.operations import PAGE_LINES, Operation, User
from fray_airflow.iris.options import ClientArguments, ClientOptions, client_options
from fray_airflow.iris.over_connect import AsyncConnectCarrier, ConnectCarrier
from fray_airflow.iris.over_grpc import AsyncGrpcCarrier, GrpcCarrier
from fray_airflow.iris.retry import retry_options
from fray_airflow.iris.spoken import known_transport, learn_transport, speaking
from fray_airflow.iris.submission import prepare, proves
from fray_airflow.iris.survey import survey
from fray_airflow.iris.target import Target, Transport
from fray_airflow.job import JobRequest
from fray_airflow.logs import LogCursor, LogPage
from fray_airflow.resources import ResourceConfig
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus, TaskStatus, Worker
from fray_airflow.steps import afollow, follow


class IrisClient:
    """A controller, blocking. Arguments: see `ClientArguments`. Connects on first use; close it or use `with`.

    Every method raises IrisUnavailableError when the controller stays away for longer than a few tries, and
    IrisAuthError when it refuses us. May be used from several threads, not across a fork.
    """

    def __init__(self, target: str | Target | ClientOptions, **arguments: Unpack[ClientArguments]) -> None:
        self.options = client_options(target, **arguments)
        self._carriers: dict[Target, Carrier] = {}
        self._making = threading.Lock()
        self._user: str | None = None

    def __repr__(self) -> str:
        return f"IrisClient({str(self.options.target)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._carriers:
            self._carriers.popitem()[1].close()

    def submit(self, job: JobRequest, *, base: Path | None = None) -> JobHandle:
        """Submits `job`, ours or marin-fray's, under a new name; `base` is where its relative paths start.

        Sent again when the reply is lost, and still makes one job. Raises JobExistsError if the name is taken,
        SubmissionRejectedError if the controller refuses the request, InvalidSpecError if the code cannot be read.
        """
        request = prepare(from_fray(job), user=self.user(), base=base, gpu_gang_level=self.options.gpu_gang_level)
        return JobHandle(self, self.launch(request))

    def launch(self, request: Controller.LaunchJobRequest) -> str:
        """Submits a request that is ready, and returns the job's id. Raises as `submit`."""
        try:
            return self.run(operations.launch(request))
        except JobExistsError:
            holder = self.job_status(request.name)
            if not proves(holder, request):
                raise
            return holder.job_id

    def user(self) -> str:
        """The first part of our job ids: the user of the options for an admin, else who the controller takes us for."""
        if self._user is None:
            me = self.whoami()
            self._user = self.options.user if me.admin else me.user_id
        return self._user

    def transport(self) -> Transport:
        """What the target speaks: "auto" before the first call to one that was given without scheme."""
        return known_transport(self.options.target)

    def hurried(self, seconds: float) -> IrisClient:
        """A client of its own for the same controller, that asks once and waits at most `seconds` for an answer.

        For signal handlers: it shares no lock with the one that the signal interrupted.
        """
        return IrisClient(replace(self.options, timeout=seconds, patience=0))

    def handle(self, job_id: str) -> JobHandle:
        return JobHandle(self, job_id)

    def job_status(self, job_id: str) -> JobStatus:
        """Raises JobNotFoundError for an id that the controller does not know."""
        return self.run(operations.job_status(job_id))

    def job_request(self, job_id: str) -> Controller.LaunchJobRequest:
        """The request as the controller keeps it: defaults filled in, names in lower case, secrets redacted."""
        return self.run(operations.job_request(job_id))

    def job_states(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        """The states of many jobs in one call. Ids that the controller does not know are not in the answer."""
        return self.run(operations.job_states(job_ids))

    def jobs(self, name_contains: str = "", state: str = "", limit: int = 100) -> list[JobStatus]:
        """The newest jobs whose name contains a text, in a state such as "running"; at most 500."""
        return self.run(operations.jobs(name_contains, state, limit))

    def tasks(self, job_id: str) -> list[TaskStatus]:
        """The replicas in order; none for an unknown job."""
        return self.run(operations.tasks(job_id))

    def terminate(self, job_id: str) -> None:
        """May be called twice, and on a finished job. Its machines are free some seconds later."""
        self.run(operations.terminate(job_id))

    def logs(
        self,
        job_id: str,
        cursor: LogCursor | None = None,
        *,
        max_lines: int = PAGE_LINES,
        replicas: Sequence[int] = (),
    ) -> LogPage:
        """The next lines of a job behind `cursor`, from the start without one. Lines come up to 2 s late."""
        return self.run(operations.logs(cursor or LogCursor(job_id), max_lines=max_lines, replicas=replicas))

    def log_tail(self, job_id: str, replica: int, *, since_ms: int = 0, lines: int = 20) -> LogPage:
        """The last lines of one replica, all its attempts together."""
        return self.run(operations.log_tail(job_id, replica, since_ms=since_ms, lines=lines))

    def result_entries(self, job_id: str, replica: int, attempt: int, *, since_ms: int = 0) -> tuple[str, ...]:
        """The envelope of what a function returned, as text: see `fray_airflow.results`. Empty if none has come."""
        return self.run(operations.result_entries(job_id, replica, attempt, since_ms=since_ms))

    def workers(self, contains: str = "") -> list[Worker]:
        return self.run(operations.workers(contains))

    def bands(self, job_ids: Collection[str]) -> dict[str, str]:
        """The priority bands in which those of the jobs run that do; a user's spent budget makes it BATCH."""
        return self.run(operations.bands(job_ids))

    def autoscaler(self) -> AutoscalerStatus:
        return self.run(operations.autoscaler())

    def capacity(self, resource_config: ResourceConfig, *, gpu_gang_level: str | None = None) -> Capacity:
        """Whether a job of this shape could be placed now: see `capacity_of`, which says what it raises.

        `gpu_gang_level` goes before the client's own.
        Machines of a terminated job are shown as free up to 4 s before Iris uses them again.
        """
        level = gpu_gang_level or self.options.gpu_gang_level
        return follow(survey(resource_config, gpu_gang_level=level), self.run)

    def whoami(self) -> User:
        return self.run(operations.whoami())

    def run[T](self, operation: Operation[T]) -> T:
        try:
            carrier = self._carrier(operation)

            def once() -> T:
                return _read(operation, carrier.unary(*_arguments(operation, self.options)))

            return Retrying(**retry_options(self.options.patience if operation.patient else 0))(once)
        except WireFailure as failure:
            raise _error(failure, operation, self.options) from None

    def _carrier(self, operation: Operation[Any]) -> Carrier:
        target = _target_of(operation, self.options)
        if known_transport(target) == "auto":
            learn_transport(target, self._probe(target))
        target = speaking(target, known_transport(target))
        with self._making:
            if target not in self._carriers:
                make = GrpcCarrier if target.transport == "grpc" else ConnectCarrier
                self._carriers[target] = make(target, self.options.ca)
            return self._carriers[target]

    def _probe(self, target: Target) -> WireFailure | None:
        probe = operations.whoami()
        carrier = GrpcCarrier(target, self.options.ca)
        try:
            Retrying(**retry_options(self.options.patience / 2))(carrier.unary, *_arguments(probe, self.options))
        except WireFailure as failure:
            return failure
        finally:
            carrier.close()
        return None


class AsyncIrisClient:
    """The same controller, awaitable, for one event loop. What the methods do is said in IrisClient."""

    def __init__(self, target: str | Target | ClientOptions, **arguments: Unpack[ClientArguments]) -> None:
        self.options = client_options(target, **arguments)
        self._carriers: dict[Target, AsyncCarrier] = {}
        self._user: str | None = None

    def __repr__(self) -> str:
        return f"AsyncIrisClient({str(self.options.target)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        while self._carriers:
            await self._carriers.popitem()[1].close()

    async def submit(self, job: JobRequest, *, base: Path | None = None) -> AsyncJobHandle:
        request = prepare(from_fray(job), user=await self.user(), base=base, gpu_gang_level=self.options.gpu_gang_level)
        return AsyncJobHandle(self, await self.launch(request))

    async def launch(self, request: Controller.LaunchJobRequest) -> str:
        try:
            return await self.run(operations.launch(request))
        except JobExistsError:
            holder = await self.job_status(request.name)
            if not proves(holder, request):
                raise
            return holder.job_id

    async def user(self) -> str:
        if self._user is None:
            me = await self.whoami()
            self._user = self.options.user if me.admin else me.user_id
        return self._user

    def handle(self, job_id: str) -> AsyncJobHandle:
        return AsyncJobHandle(self, job_id)

    async def job_status(self, job_id: str) -> JobStatus:
        return await self.run(operations.job_status(job_id))

    async def job_request(self, job_id: str) -> Controller.LaunchJobRequest:
        return await self.run(operations.job_request(job_id))

    async def job_states(self, job_ids: Iterable[str]) -> dict[str, JobState]:
        return await self.run(operations.job_states(job_ids))

    async def jobs(self, name_contains: str = "", state: str = "", limit: int = 100) -> list[JobStatus]:
        return await self.run(operations.jobs(name_contains, state, limit))

    async def tasks(self, job_id: str) -> list[TaskStatus]:
        return await self.run(operations.tasks(job_id))

    async def terminate(self, job_id: str) -> None:
        await self.run(operations.terminate(job_id))

    async def logs(
        self,
        job_id: str,
        cursor: LogCursor | None = None,
        *,
        max_lines: int = PAGE_LINES,
        replicas: Sequence[int] = (),
    ) -> LogPage:
        return await self.run(operations.logs(cursor or LogCursor(job_id), max_lines=max_lines, replicas=replicas))

    async def log_tail(self, job_id: str, replica: int, *, since_ms: int = 0, lines: int = 20) -> LogPage:
        return await self.run(operations.log_tail(job_id, replica, since_ms=since_ms, lines=lines))

    async def result_entries(self, job_id: str, replica: int, attempt: int, *, since_ms: int = 0) -> tuple[str, ...]:
        return await self.run(operations.result_entries(job_id, replica, attempt, since_ms=since_ms))

    async def workers(self, contains: str = "") -> list[Worker]:
        return await self.run(operations.workers(contains))

    async def bands(self, job_ids: Collection[str]) -> dict[str, str]:
        return await self.run(operations.bands(job_ids))

    async def autoscaler(self) -> AutoscalerStatus:
        return await self.run(operations.autoscaler())

    async def capacity(self, resource_config: ResourceConfig, *, gpu_gang_level: str | None = None) -> Capacity:
        level = gpu_gang_level or self.options.gpu_gang_level
        return await afollow(survey(resource_config, gpu_gang_level=level), self.run)

    async def whoami(self) -> User:
        return await self.run(operations.whoami())

    async def run[T](self, operation: Operation[T]) -> T:
        try:
            carrier = await self._carrier(operation)

            async def once() -> T:
                return _read(operation, await carrier.unary(*_arguments(operation, self.options)))

            return await AsyncRetrying(**retry_options(self.options.patience if operation.patient else 0))(once)
        except WireFailure as failure:
            raise _error(failure, operation, self.options) from None

    async def _carrier(self, operation: Operation[Any]) -> AsyncCarrier:
        target = _target_of(operation, self.options)
        if known_transport(target) == "auto":
            learn_transport(target, await self._probe(target))
        target = speaking(target, known_transport(target))
        if target not in self._carriers:
            make = AsyncGrpcCarrier if target.transport == "grpc" else AsyncConnectCarrier
            self._carriers[target] = make(target, self.options.ca)
        return self._carriers[target]

    async def _probe(self, target: Target) -> WireFailure | None:
        probe = operations.whoami()
        carrier = AsyncGrpcCarrier(target, self.options.ca)
        try:
            await AsyncRetrying(**retry_options(self.options.patience / 2))(
                partial(carrier.unary, *_arguments(probe, self.options))
            )
        except WireFailure as failure:
            return failure
        finally:
            await carrier.close()
        return None


def _target_of(operation: Operation[Any], options: ClientOptions) -> Target:
    if operation.call.path.startswith(LOG_SERVICE) and options.log_target is not None:
        return options.log_target
    return options.target


def _arguments(operation: Operation[Any], options: ClientOptions) -> tuple[Any, ...]:
    """What a carrier's `unary` is called with."""
    return operation.call.path, operation.request, options.headers, options.timeout or operation.call.deadline


def _read[T](operation: Operation[T], reply: bytes) -> T:
    try:
        return operation.read(reply)
    except (DecodeError, ValueError, OverflowError, OSError) as error:
        # As good as lost: what was asked for may have been done.
        raise WireFailure("unavailable", f"a reply of {len(reply)} bytes that cannot be read ({error})") from error


def _error(failure: WireFailure, operation: Operation[Any], options: ClientOptions) -> IrisError:
    failure.message = options.headers.hidden(failure.message)
    return to_error(failure, operation.call, options.where, operation.job_id)
