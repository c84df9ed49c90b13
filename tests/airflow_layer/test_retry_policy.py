"""The retry policy."""

from datetime import timedelta

import pytest

from fray_airflow import errors

pytest.importorskip("airflow.sdk.definitions.retry_policy", reason="retry policies came with Airflow 3.3")

from airflow.sdk import RetryAction

from fray_airflow.policies import IrisRetryPolicy


@pytest.mark.parametrize(
    ("error", "action", "delay"),
    [
        (errors.JobFailedError("x", exit_code=2), RetryAction.FAIL, None),
        (errors.JobFailedError("x", exit_code=1), RetryAction.DEFAULT, None),
        (errors.JobPreemptedError("x"), RetryAction.RETRY, timedelta(seconds=5)),
        (errors.IrisUnavailableError("x"), RetryAction.RETRY, timedelta(minutes=2)),
        (ValueError("x"), RetryAction.DEFAULT, None),
    ],
)
def test_the_policy_decides_by_what_ended_the_job(error, action, delay):
    """Others than this provider's errors follow the task's own settings."""
    policy = IrisRetryPolicy(no_retry_exit_codes=[2], preempted_delay=timedelta(seconds=5))
    decision = policy.evaluate(error, 1, 3)
    assert (decision.action, decision.retry_delay) == (action, delay)
