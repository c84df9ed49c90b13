"""How a command ends: exit codes, and which error means which."""

from __future__ import annotations

from enum import IntEnum

from fray_airflow.errors import (
    FrayError,
    InvalidSpecError,
    IrisAuthError,
    IrisUnavailableError,
    JobNotFoundError,
)


class Exit(IntEnum):
    """2 is also argparse's own for arguments that it does not understand."""

    DONE = 0
    NO = 1
    """The answer is no: a check failed, a job did not succeed, somebody said no."""
    MISUSE = 2
    """Arguments, a spec, a DAG file or a connection that cannot be right."""
    NO_IRIS = 3
    """Iris did not answer, or refused who we are."""
    UNKNOWN_JOB = 4
    FINISHED_JOB = 5
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command with a message for people."""

    def __init__(self, message: str, code: Exit = Exit.MISUSE) -> None:
        super().__init__(message)
        self.code = code


def exit_of(error: FrayError) -> Exit:
    """Iris's other refusals are a no."""
    if isinstance(error, InvalidSpecError):
        return Exit.MISUSE
    if isinstance(error, IrisUnavailableError | IrisAuthError):
        return Exit.NO_IRIS
    return Exit.UNKNOWN_JOB if isinstance(error, JobNotFoundError) else Exit.NO
