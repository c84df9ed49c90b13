"""IrisRetryPolicy: which ends of a job another try may help, and how soon. For Airflow 3.3 and newer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryPolicy
from airflow.sdk.definitions.retry_policy import RetryDecision

from fray_airflow.errors import IrisUnavailableError, JobFailedError, JobPreemptedError, PlacementTimeoutError

if TYPE_CHECKING:
    from airflow.sdk import Context


class IrisRetryPolicy(RetryPolicy):
    """For `retry_policy=` of a task. It decides for the errors of this provider; others follow the task's own settings.

    no_retry_exit_codes: a program that ends with one of these does so again.
    preempted_delay: soon, since the job did nothing wrong and its machines may be back.
    unavailable_delay: a controller that restarts needs some minutes; the job goes on meanwhile.
    """

    def __init__(
        self,
        *,
        no_retry_exit_codes: Sequence[int] = (),
        preempted_delay: timedelta = timedelta(seconds=30),
        unavailable_delay: timedelta = timedelta(minutes=2),
    ) -> None:
        self.no_retry_exit_codes = tuple(no_retry_exit_codes)
        self.preempted_delay = preempted_delay
        self.unavailable_delay = unavailable_delay

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        match exception:
            case JobFailedError() if exception.exit_code in self.no_retry_exit_codes:
                return RetryDecision.fail(reason=f"exit code {exception.exit_code} is in no_retry_exit_codes")
            case JobPreemptedError() | PlacementTimeoutError():
                return RetryDecision.retry(delay=self.preempted_delay, reason="machines may be free again")
            case IrisUnavailableError():
                return RetryDecision.retry(delay=self.unavailable_delay, reason="the controller may be back")
        return RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        return {
            "no_retry_exit_codes": list(self.no_retry_exit_codes),
            "preempted_delay": self.preempted_delay.total_seconds(),
            "unavailable_delay": self.unavailable_delay.total_seconds(),
        }
