"""Job and task states of Iris, and its priority bands. Numbers: marin-iris 0.2.227.dev40316220070."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class _OpenEnum(IntEnum):
    """An enum of the wire. A number that a newer server sends becomes the member `UNKNOWN(n)` instead of an error."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN({value})"
        member._value_ = value
        # One object per number, so that `is` and pickling behave as for declared members.
        return cls._value2member_map_.setdefault(value, member)  # type: ignore[return-value]  # maps to Enum

    def __str__(self) -> str:
        return self.name


class JobState(_OpenEnum):
    """A job is RUNNING from the moment its first replica is assigned, and never PENDING again."""

    UNSPECIFIED = 0
    PENDING = 1
    BUILDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    KILLED = 6
    WORKER_FAILED = 7
    UNSCHEDULABLE = 8

    @property
    def finished(self) -> bool:
        """An unknown state is not an end."""
        return self in _FINISHED_JOB


class TaskState(_OpenEnum):
    """The state of one replica."""

    UNSPECIFIED = 0
    PENDING = 1
    BUILDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    KILLED = 6
    WORKER_FAILED = 7
    UNSCHEDULABLE = 8
    ASSIGNED = 9
    PREEMPTED = 10
    COSCHED_FAILED = 11
    MISSING = 12

    @property
    def finished(self) -> bool:
        return self in _FINISHED_TASK


class PriorityBand(IntEnum):
    """Who goes first: SYSTEM, PRODUCTION, INTERACTIVE, BATCH. INHERIT is the parent job's, else INTERACTIVE."""

    INHERIT = 0
    PRODUCTION = 1
    INTERACTIVE = 2
    BATCH = 3
    SYSTEM = 4

    @classmethod
    def parse(cls, value: str | int) -> Self:
        """A band from its name in any case, or its number. Raises ValueError that lists the names."""
        try:
            if isinstance(value, bool):
                raise ValueError(value)
            return cls[value.strip().upper()] if isinstance(value, str) else cls(value)
        except (KeyError, ValueError):
            names = ", ".join(band.name.lower() for band in cls)
            raise ValueError(f"{value!r} is not a priority band; choose from {names}") from None


_FINISHED_JOB = frozenset(
    {JobState.SUCCEEDED, JobState.FAILED, JobState.KILLED, JobState.WORKER_FAILED, JobState.UNSCHEDULABLE}
)
_FINISHED_TASK = frozenset(
    {
        TaskState.SUCCEEDED,
        TaskState.FAILED,
        TaskState.KILLED,
        TaskState.WORKER_FAILED,
        TaskState.UNSCHEDULABLE,
        TaskState.PREEMPTED,
        TaskState.COSCHED_FAILED,
    }
)
