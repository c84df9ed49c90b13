"""The core errors as Airflow acts on them: each class is both the core class and one of Airflow's.

`except fray_airflow.errors.JobFailedError` catches what an operator raises. What cannot be helped by trying again is an
AirflowFailException, which Airflow does not retry; everything else follows the task's `retries`.
"""

from __future__ import annotations

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fray_airflow import errors


class InvalidSpecError(errors.InvalidSpecError, AirflowFailException):
    """Not retried: the spec stays wrong."""


class SubmissionRejectedError(errors.SubmissionRejectedError, AirflowFailException):
    """Not retried: the controller gives the same answer again."""


class JobExistsError(errors.JobExistsError, AirflowFailException):
    """Not retried: the name stays taken."""


class JobKilledError(errors.JobKilledError, AirflowFailException):
    """Not retried: somebody wanted the job gone."""


class IrisError(errors.IrisError, AirflowException): ...


class IrisUnavailableError(errors.IrisUnavailableError, AirflowException): ...


class IrisAuthError(errors.IrisAuthError, AirflowException): ...


class JobNotFoundError(errors.JobNotFoundError, AirflowException): ...


class JobFailedError(errors.JobFailedError, AirflowException): ...


class PermanentJobFailedError(errors.JobFailedError, AirflowFailException):
    """Not retried: the author said so of this exit code."""


class JobPreemptedError(errors.JobPreemptedError, AirflowException): ...


class UnschedulableError(errors.UnschedulableError, AirflowException): ...


class PlacementTimeoutError(errors.PlacementTimeoutError, AirflowException): ...


class JobTimeoutError(errors.JobTimeoutError, AirflowException): ...


_CLASSES: dict[type[errors.FrayError], type[errors.FrayError]] = {
    cls.__mro__[1]: cls
    for cls in (
        InvalidSpecError,
        SubmissionRejectedError,
        JobExistsError,
        JobKilledError,
        IrisError,
        IrisUnavailableError,
        IrisAuthError,
        JobNotFoundError,
        JobFailedError,
        JobPreemptedError,
        UnschedulableError,
        PlacementTimeoutError,
        JobTimeoutError,
    )
}


def for_airflow(error: errors.FrayError, *, final: bool = False) -> errors.FrayError:
    """The same error with the parent that Airflow acts on. An error that has it already is returned as it is.

    `final` says that a job that failed would fail again.
    """
    cls = _CLASSES.get(type(error))
    if final and cls is JobFailedError:
        cls = PermanentJobFailedError
    if cls is None:
        return error
    if isinstance(error, errors.IrisError) and issubclass(cls, errors.IrisError):
        return cls.of(error.message, error.facts())
    if isinstance(error, errors.InvalidSpecError):
        return InvalidSpecError(error.subject, error.faults)
    return error
