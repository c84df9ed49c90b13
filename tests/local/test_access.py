"""Who may do what: without a token everything but production, with one only one's own."""

from __future__ import annotations

import pytest

from fray_airflow.iris._gen import controller_pb2, job_pb2
from fray_airflow.local.access import Access

C = controller_pb2.Controller


@pytest.fixture
def guarded(make_iris):
    """Enforces a token; the driver is carol, who has it."""
    iris = make_iris(access=Access("t0ken", "carol@x.org"))
    iris.metadata = {"authorization": "Bearer t0ken"}
    return iris


@pytest.fixture
def others_job(guarded, job):
    """A job of alice's, who is not the driver."""
    guarded.cluster.access = Access(None)
    guarded.launch(job("/alice/j", require={"nobody": "has"}))
    guarded.cluster.access = Access("t0ken", "carol@x.org")
    return "/alice/j"


def whoami(iris):
    user = iris.call("GetCurrentUser", job_pb2.GetCurrentUserRequest())
    return user.user_id, user.role


def test_without_a_token_everybody_is_the_anonymous_admin(iris):
    iris.metadata = {"authorization": "Bearer whatever"}
    assert whoami(iris) == ("anonymous", "admin")


def test_with_the_token_the_caller_is_a_user(guarded):
    assert whoami(guarded) == ("carol@x.org", "user")


def test_the_scheme_is_case_insensitive(guarded):
    guarded.metadata = {"authorization": "bEaReR t0ken"}
    assert whoami(guarded) == ("carol@x.org", "user")


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({}, "authentication required"),
        ({"authorization": "Basic abc"}, "authentication required"),
        ({"authorization": "Bearer nope"}, "authentication failed"),
    ],
)
def test_a_missing_token_is_told_from_a_bad_one(guarded, metadata, text):
    guarded.metadata = metadata
    error = guarded.refusal("GetCurrentUser", job_pb2.GetCurrentUserRequest())
    assert (error.code, error.message) == ("unauthenticated", text)


def test_a_root_job_under_another_name_becomes_ones_own(guarded, job):
    """The returned id is the one that counts."""
    assert guarded.launch(job("/other/j2")) == "/carol@x.org/j2"
    assert guarded.status("/carol@x.org/j2").name == "/carol@x.org/j2"


def test_a_child_in_anothers_tree_is_refused(guarded, job, others_job):
    error = guarded.refusal("LaunchJob", job("/alice/j/child"))
    assert error.code == "permission_denied"
    assert error.message == "User 'carol@x.org' cannot access resources owned by 'alice'"


def test_anothers_job_can_be_read_but_not_ended(guarded, others_job):
    assert guarded.state(others_job) == "PENDING"
    assert guarded.refusal("TerminateJob", C.TerminateJobRequest(job_id=others_job)).code == "permission_denied"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"band": "PRODUCTION"}, "manage_budgets not allowed for role user"),
        ({"container_profile": 4}, "set_container_profile not allowed for role user"),
        ({"container_profile": 3}, "set_container_profile not allowed for role user"),
    ],
)
def test_a_user_may_not_ask_for_privileges(guarded, job, fields, text):
    error = guarded.refusal("LaunchJob", job(**fields))
    assert (error.code, error.message) == ("permission_denied", text)


def test_an_admin_may_use_any_name(iris, job):
    assert iris.launch(job("/anybody/j")) == "/anybody/j"
