"""Which error of ours an answer is."""

from __future__ import annotations

import inspect
import itertools

import pytest

from fray_airflow.errors import (
    IrisAuthError,
    IrisError,
    IrisUnavailableError,
    JobExistsError,
    JobNotFoundError,
    SubmissionRejectedError,
)
from fray_airflow.iris import calls
from fray_airflow.iris.calls import LAUNCH_JOB, Call
from fray_airflow.iris.failure import WireFailure, to_error

CALLS = [value for _, value in inspect.getmembers(calls) if isinstance(value, Call)]

# The class for any call, and for LaunchJob.
CLASSES = {
    "canceled": (IrisUnavailableError, IrisUnavailableError),
    "unknown": (IrisError, SubmissionRejectedError),
    "invalid_argument": (IrisError, SubmissionRejectedError),
    "deadline_exceeded": (IrisUnavailableError, IrisUnavailableError),
    "not_found": (JobNotFoundError, SubmissionRejectedError),
    "already_exists": (JobExistsError, JobExistsError),
    "permission_denied": (IrisAuthError, IrisAuthError),
    "resource_exhausted": (IrisError, SubmissionRejectedError),
    "failed_precondition": (IrisError, SubmissionRejectedError),
    "aborted": (IrisUnavailableError, IrisUnavailableError),
    "out_of_range": (IrisError, SubmissionRejectedError),
    "unimplemented": (IrisError, SubmissionRejectedError),
    "internal": (IrisError, SubmissionRejectedError),
    "unavailable": (IrisUnavailableError, IrisUnavailableError),
    "data_loss": (IrisError, SubmissionRejectedError),
    "unauthenticated": (IrisAuthError, IrisAuthError),
    "a code of tomorrow": (IrisError, SubmissionRejectedError),
}


@pytest.mark.parametrize(
    ("code", "call"), list(itertools.product(CLASSES, CALLS)), ids=lambda value: getattr(value, "name", value)
)
def test_every_code_of_every_call_is_one_class(code, call):
    error = to_error(WireFailure(code, "it\n says no"), call, "Iris at host:1", "/me/job")
    assert type(error) is CLASSES[code][call is LAUNCH_JOB]
    assert (error.code, error.job_id) == (code, "/me/job")
    text = str(error)
    assert text.startswith("Iris at host:1 ")
    assert f"{call.name} of /me/job: {code}: it says no. " in text
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("code", "call"), list(itertools.product(CLASSES, CALLS)), ids=lambda value: getattr(value, "name", value)
)
def test_only_what_says_nothing_about_the_request_is_sent_again(code, call):
    failure = WireFailure(code, "")
    unavailable = type(to_error(failure, call, "Iris")) is IrisUnavailableError
    assert failure.transient == unavailable


def test_the_hint_of_a_carrier_wins_over_the_general_advice():
    assert str(to_error(WireFailure("internal", "m", "Do this."), LAUNCH_JOB, "Iris")).endswith("internal: m. Do this.")


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("marin-iris client is too old: 2026", "Upgrade fray-airflow."),
        ("Job /a/b is unschedulable: no group", "change resource_config"),
        ("no scaling group provides device gpu:x", "change resource_config"),
        ("Job name is required", "Change the request"),
    ],
)
def test_a_refused_launch_ends_with_the_next_step(message, advice):
    assert advice in str(to_error(WireFailure("failed_precondition", message), LAUNCH_JOB, "Iris"))


def test_paths_are_those_of_the_services():
    assert {call.path.rpartition("/")[0] for call in CALLS} == {
        "/iris.cluster.ControllerService",
        "/finelog.logging.LogService",
    }
    assert all(call.path.endswith(f"/{call.name}") for call in CALLS)
    assert [call.name for call in CALLS if not call.idempotent] == ["LaunchJob"]
