"""A launch under a name that is taken: policy by state of the job that has it."""

from __future__ import annotations

import pytest

from fray_airflow.iris._gen import job_pb2
from fray_airflow.local import Outcome

POLICIES = ["UNSPECIFIED", "ERROR", "KEEP", "RECREATE"]


def submitted(iris):
    return iris.status("/a/j").submitted_at.epoch_ms


@pytest.fixture
def active(iris, job):
    iris.script("j", Outcome.hang())
    iris.launch(job())
    iris.until_running("/a/j")
    return submitted(iris)


@pytest.fixture
def ended(iris, job):
    iris.script("j", Outcome.succeed())
    iris.launch(job())
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    return submitted(iris)


def test_a_running_job_is_in_the_way(iris, job, active):
    error = iris.refusal("LaunchJob", job())
    assert (error.code, error.message) == ("already_exists", "Job /a/j already exists and is still running")


def test_error_names_the_state_of_a_running_job(iris, job, active):
    error = iris.refusal("LaunchJob", job(policy="ERROR"))
    assert (error.code, error.message) == ("already_exists", "Job /a/j already exists (state=JOB_STATE_RUNNING)")


def test_error_refuses_a_finished_job_too(iris, job, ended):
    error = iris.refusal("LaunchJob", job(policy="ERROR"))
    assert (error.code, error.message) == ("already_exists", "Job /a/j already exists (state=JOB_STATE_SUCCEEDED)")


def test_keep_returns_a_running_job_unchanged(iris, job, active):
    """The new payload is thrown away, and the answer does not say so."""
    assert iris.launch(job(policy="KEEP", replicas=5)) == "/a/j"
    assert (submitted(iris), iris.status("/a/j").task_count) == (active, 1)


@pytest.mark.parametrize("policy", ["UNSPECIFIED", "KEEP", "RECREATE"])
def test_a_finished_job_is_run_again(iris, job, ended, policy):
    """KEEP does not keep what has ended, success included."""
    iris.launch(job(policy=policy))
    assert submitted(iris) > ended
    assert iris.until_ended("/a/j") == "SUCCEEDED"


def test_recreate_waits_until_the_old_run_has_drained(iris, job, active):
    began = iris.now
    iris.launch(job(policy="RECREATE", replicas=2))
    assert iris.now - began >= 0.5
    assert submitted(iris) > active
    assert iris.status("/a/j").task_count == 2


def test_replacing_a_killed_job_waits_for_the_drain_as_well(iris, job, active):
    iris.terminate("/a/j")
    began = iris.now
    iris.launch(job())
    assert iris.now - began >= 0.5


def test_a_policy_nobody_knows_is_like_none(iris, job, active):
    request = job()
    request.existing_job_policy = 9
    assert iris.refusal("LaunchJob", request).code == "already_exists"


def test_fail_if_exists_does_nothing(iris, job, ended):
    assert iris.launch(job(fail_if_exists=True)) == "/a/j"
    assert iris.echo("/a/j").fail_if_exists
    assert submitted(iris) > ended


def test_replacing_a_job_forgets_its_children(iris, job):
    iris.script("*", Outcome.hang(), Outcome.hang())
    iris.launch(job("/a/p"))
    iris.launch(job("/a/p/c"))
    iris.launch(job("/a/p", policy="RECREATE"))
    assert not iris.status("/a/p").has_children


def test_a_bundle_that_is_too_large_is_noticed_after_the_old_job_was_cancelled(iris, job, active):
    """The payload is looked at last: the refused launch has cost the old job its life."""
    error = iris.refusal("LaunchJob", job(policy="RECREATE", bundle_blob=bytes(25 * 1024 * 1024 + 1)))
    assert error.code == "invalid_argument"
    assert iris.state("/a/j") == "KILLED"


def test_submission_times_are_unique(iris, job):
    """Two launches in one millisecond differ, so that the time identifies a run."""
    times = set()
    for number in range(5):
        iris.launch(job(f"/a/j{number}"))
        times.add(iris.status(f"/a/j{number}").submitted_at.epoch_ms)
    assert len(times) == 5
    assert job_pb2.JobState.Name(iris.status("/a/j0").state) == "JOB_STATE_PENDING"
