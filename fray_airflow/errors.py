"""The error tree.

One class per kind of end, the same from the client, the sync operator and the deferred trigger. Facts are attributes;
the message ends with the next step. Nothing here knows Airflow: `fray_airflow.exceptions` adds the parents Airflow
acts on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

PASSING_CODES = frozenset({"internal", "unknown", "resource_exhausted", "data_loss"})
"""Answers that may be others a moment later: whatever is wrong at the server then, it is not the question."""


class FrayError(Exception):
    """Anything this package raises on purpose."""


class InvalidSpecError(FrayError, ValueError):
    """A spec that cannot be right. `faults` holds every fault found, each naming field, value and valid choices."""

    def __init__(self, subject: str, faults: Iterable[str]) -> None:
        self.subject = subject
        self.faults = tuple(faults)
        super().__init__(subject, self.faults)

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return f"{self.subject}: {self.faults[0]}"
        return "\n".join([f"{self.subject}: {len(self.faults)} faults", *(f"  - {fault}" for fault in self.faults)])


class IrisError(FrayError):
    """An answer, or the missing answer, of an Iris controller.

    `job_id`, `state` and `pending_reason` are "" and `exit_code` is None where they are not known; `code` is the wire
    status in lower case ("not_found") when the error came as an RPC's answer.
    """

    def __init__(
        self,
        message: str,
        *,
        job_id: str = "",
        state: str = "",
        exit_code: int | None = None,
        pending_reason: str = "",
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.state = state
        self.exit_code = exit_code
        self.pending_reason = pending_reason
        self.code = code

    @property
    def message(self) -> str:
        return str(self.args[0])

    def facts(self) -> dict[str, Any]:
        """The keyword arguments that make an equal error."""
        names = ("job_id", "state", "exit_code", "pending_reason", "code")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for a trigger's event."""
        core = next(cls for cls in type(self).__mro__ if cls.__module__ == __name__)
        return {"kind": core.__name__, "message": self.message, **self.facts()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> IrisError:
        """The error that was written; one of a class that this version does not know becomes an IrisError."""
        cls = globals().get(value["kind"])
        if not (isinstance(cls, type) and issubclass(cls, IrisError)):
            cls = IrisError
        known = IrisError("").facts()
        return cls.of(str(value["message"]), {name: value[name] for name in known if name in value})

    @classmethod
    def of(cls, message: str, facts: dict[str, Any]) -> Self:
        return cls(message, **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle as cls(*args), which loses keyword arguments.
        return type(self).of, (self.message, self.facts()), self.__dict__


class IrisUnavailableError(IrisError):
    """The controller did not answer, or not in time. The job, if there is one, may still run."""


class IrisAuthError(IrisError):
    """The controller refused who we are (unauthenticated) or what we may do (permission denied)."""


class SubmissionRejectedError(IrisError):
    """The controller refused the request itself: sending it again cannot help."""


class JobExistsError(SubmissionRejectedError):
    """The name is taken by a job that is not ours."""


class JobNotFoundError(IrisError):
    """The controller does not know the job: never submitted, or forgotten (Iris keeps finished jobs for 7 days)."""


class JobFailedError(IrisError):
    """A replica's program ended with an exit code other than 0."""


class JobPreemptedError(IrisError):
    """The job lost its machines (preempted or worker failed) more often than its budget allows."""


class JobKilledError(IrisError):
    """Somebody terminated the job."""


class UnschedulableError(IrisError):
    """Iris gave up placing the job (its scheduling timeout passed)."""


class PlacementTimeoutError(UnschedulableError):
    """Not all replicas were placed within `placement_timeout`."""


class JobTimeoutError(IrisError):
    """A replica ran longer than `job_timeout`, or the task longer than `execution_timeout`."""
