"""The endpoint registry: addresses that tasks tell each other by name, each for as long as its lease."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from fray_airflow.iris._gen import controller_pb2, job_pb2, time_pb2

from .names import parse_job_name
from .table import Job, Table, Task
from .wire_error import WireError

C = controller_pb2.Controller

LONGEST_LEASE_MS = 600_000
SHORTEST_LEASE_MS = 180_000

_CHARACTERS = r"[A-Za-z0-9._~!$&'()*+,;=%-]*"
_AUTHORITY = re.compile(rf"({_CHARACTERS}@)?(\[[0-9A-Fa-f:.]*\]|{_CHARACTERS})(:{_CHARACTERS})?")


@dataclass(frozen=True)
class _Entry:
    endpoint: C.Endpoint
    job_id: str
    until_ms: int


class Endpoints:
    """As careless as Iris's: a name may be anybody's, and the end of a task leaves its entries until their lease ends.

    Only who terminates or replaces a job removes them. Not thread-safe.
    """

    def __init__(self, table: Table, now_ms: Callable[[], int]) -> None:
        self._table = table
        self._now_ms = now_ms
        self._entries: dict[str, _Entry] = {}

    def register(self, request: C.RegisterEndpointRequest) -> C.RegisterEndpointResponse:
        """A task has one entry of a name: registering it again replaces it, and so renews its lease."""
        job_id, index = _task_of(request.task_id)
        task = self._task(job_id, index)
        if task is None:
            raise WireError("not_found", f"Task {request.task_id} not found")
        if task.is_terminal:
            message = f"Task {request.task_id} is already terminal; endpoint not registered"
            raise WireError("failed_precondition", message)
        if request.attempt_id != len(task.attempts) - 1:
            message = f"Task {request.task_id} attempt {request.attempt_id} is no longer current"
            raise WireError("failed_precondition", message)
        lease_ms = _lease_ms(request)
        endpoint = C.Endpoint(
            endpoint_id=request.endpoint_id or str(uuid.uuid4()),
            name=request.name,
            address=request.address,
            task_id=request.task_id,
            metadata=request.metadata,
            access=request.access,
            peer_id="",
        )
        self._entries = {
            endpoint_id: entry
            for endpoint_id, entry in self._entries.items()
            if (entry.endpoint.task_id, entry.endpoint.name) != (endpoint.task_id, endpoint.name)
        }
        self._entries[endpoint.endpoint_id] = _Entry(endpoint, job_id, self._now_ms() + lease_ms)
        return C.RegisterEndpointResponse(
            endpoint_id=endpoint.endpoint_id, lease_duration=time_pb2.Duration(milliseconds=lease_ms)
        )

    def unregister(self, request: C.UnregisterEndpointRequest) -> job_pb2.Empty:
        """An entry that is not there is none the worse for it."""
        self._entries.pop(request.endpoint_id, None)
        return job_pb2.Empty()

    def listed(self, request: C.ListEndpointsRequest) -> C.ListEndpointsResponse:
        """An empty prefix is everybody's."""
        tasks = {f"{job_id}/{index}" for job_id, index in map(_job_and_index, request.task_ids)}
        return C.ListEndpointsResponse(
            endpoints=[
                entry.endpoint
                for entry in self._live()
                if (entry.endpoint.name == request.prefix if request.exact else _starts(entry, request.prefix))
                and (not tasks or entry.endpoint.task_id in tasks)
            ]
        )

    def forget(self, jobs: Iterable[Job]) -> None:
        """Their entries go, whatever is left of their leases."""
        gone = {job.job_id for job in jobs}
        self._entries = {name: entry for name, entry in self._entries.items() if entry.job_id not in gone}

    def break_the_proxy(self) -> bool:
        """One address that is none takes Iris's whole proxy away, and the log service behind it."""
        return any(_is_no_address(entry.endpoint.address) for entry in self._live())

    def _live(self) -> list[_Entry]:
        self._entries = {name: entry for name, entry in self._entries.items() if entry.until_ms > self._now_ms()}
        return list(self._entries.values())

    def _task(self, job_id: str, index: int) -> Task | None:
        job = self._table.get(job_id)
        return job.tasks[index] if job is not None and index < len(job.tasks) else None


def _starts(entry: _Entry, prefix: str) -> bool:
    return entry.endpoint.name.startswith(prefix)


def _is_no_address(text: str) -> bool:
    """What Iris does not know for the address of a web server it leaves out, which does no harm."""
    try:
        url = urlsplit(text if "://" in text else f"http://{text}")
    except ValueError:
        return False
    return url.scheme in ("http", "https") and _AUTHORITY.fullmatch(url.netloc) is None


def _task_of(text: str) -> tuple[str, int]:
    """Raises ValueError in Iris's words, which makes it an internal error, as there."""
    job_id, index = _job_and_index(text)
    if not index.isdecimal():
        raise ValueError(f"JobName is not a task: {text}")
    return job_id, int(index)


def _job_and_index(text: str) -> tuple[str, str]:
    job_id, _, index = parse_job_name(text).job_id.rpartition("/")
    return job_id, index


def _lease_ms(request: C.RegisterEndpointRequest) -> int:
    if not request.HasField("lease_duration"):
        return LONGEST_LEASE_MS
    return min(max(request.lease_duration.milliseconds, SHORTEST_LEASE_MS), LONGEST_LEASE_MS)
