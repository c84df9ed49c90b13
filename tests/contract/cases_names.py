"""Names, ids and children."""

from __future__ import annotations

from casebook import add_case, case
from iris_under_test import SLEEP, Iris

from fray_airflow.iris import calls
from fray_airflow.iris._gen import job_pb2


@case
def name_empty(iris: Iris) -> None:
    """A job without a name is refused."""
    refusal = iris.refused(calls.LAUNCH_JOB, replicas=1)
    assert refusal.code == "invalid_argument"
    assert "Job name is required" in str(refusal)


@case
def name_not_canonical(iris: Iris) -> None:
    """A name needs a leading slash, a user and at least one more part."""
    for name in ("noslash", "no/slash", "/onlyuser"):
        refusal = iris.refused(calls.LAUNCH_JOB, name=name, replicas=1)
        assert refusal.code == "internal", name
        assert f"Job name must use canonical '/<user>/<job>[...]' format: {name}" in str(refusal)


@case
def name_with_blank_part(iris: Iris) -> None:
    """No part of a name is empty or only white space."""
    for name in (f"/{iris.user}//x", f"/{iris.user}/ /x", f"/{iris.user}/x/"):
        refusal = iris.refused(calls.LAUNCH_JOB, name=name, replicas=1)
        assert refusal.code == "internal", name
        assert "empty or whitespace-only component" in str(refusal)


@case
def name_with_any_characters(iris: Iris) -> None:
    """Everything but a slash may stand in a name."""
    for name in ("with space", "tab\there", "colon:percent%", "Grüße", "12345", "x" * 500):
        job_id = iris.launch(name)
        assert job_id == f"/{iris.user}/{name}"
        assert iris.job(job_id).job_id == job_id


@case
def name_case(iris: Iris) -> None:
    """Case is kept in ids, counts in look-ups, and is lost in the `name` fields."""
    job_id = iris.launch("MixedCase")
    assert job_id.endswith("/MixedCase")
    reply = iris.describe(job_id)
    assert (reply.job.job_id, reply.job.name, reply.request.name) == (job_id, job_id.lower(), job_id.lower())
    assert iris.refused(calls.GET_JOB_STATUS, job_id=job_id.lower()).code == "not_found"
    assert iris.launch("mixedcase") == f"/{iris.user}/mixedcase"


@case
def child_of_nobody(iris: Iris) -> None:
    """A name of three parts is a child, and needs its parent."""
    refusal = iris.refused_launch(f"/{iris.user}/nope/child")
    assert refusal.code == "failed_precondition"
    assert f"parent job /{iris.user}/nope is absent from the database" in str(refusal)


@case
def child_of_finished(iris: Iris) -> None:
    """A finished job gets no children."""
    parent = iris.launch("parent", SLEEP)
    iris.terminate(parent)
    refusal = iris.refused_launch(f"{parent}/child")
    assert refusal.code == "failed_precondition"
    assert "has terminated (state=JOB_STATE_KILLED)" in str(refusal)


@case
def child_ends_with_parent(iris: Iris) -> None:
    """Terminating a job terminates its children, which say so."""
    parent = iris.launch("parent", SLEEP)
    child = iris.launch(f"{parent}/child", SLEEP)
    assert iris.job(parent).has_children
    assert iris.job(child).parent_job_id == parent
    assert not iris.job(child).has_children
    iris.running(child)
    iris.terminate(parent)
    ended = iris.job(child)
    assert (ended.state, ended.error) == (job_pb2.JOB_STATE_KILLED, "Parent job terminated")


@case
def child_inherits_band(iris: Iris) -> None:
    """A child without a band gets its parent's."""
    parent = iris.launch("parent", SLEEP, priority_band=job_pb2.PRIORITY_BAND_BATCH)
    child = iris.launch(f"{parent}/child", SLEEP)
    assert iris.echo(child).priority_band == job_pb2.PRIORITY_BAND_BATCH
    iris.terminate(parent)


@case
def child_named_like_a_task(iris: Iris) -> None:
    """A child may be called 0, although its id is then that of the parent's first task."""
    parent = iris.launch("parent", SLEEP)
    child = iris.launch(f"{parent}/0", SLEEP)
    assert child == f"{parent}/0" == iris.task(parent).task_id
    iris.terminate(parent)


def _unknown_id(call: calls.Call):
    def run(iris: Iris) -> None:
        for name in ("none", "Grüße", "a:b%20"):
            refusal = iris.refused(call, job_id=f"/{iris.user}/{name}")
            assert refusal.code == "not_found"
            assert f"Job /{iris.user}/{name} not found" in str(refusal)

    return run


def _malformed_id(call: calls.Call):
    def run(iris: Iris) -> None:
        for job_id in ("noslash", "/onlyuser", "/a//b"):
            assert iris.refused(call, job_id=job_id).code == "internal", job_id

    return run


for _call in (calls.GET_JOB_STATUS, calls.TERMINATE_JOB):
    add_case(f"{_call.name}-unknown-id", f"{_call.name} of an unknown job is not_found.", _unknown_id(_call))
for _call in (calls.GET_JOB_STATUS, calls.TERMINATE_JOB, calls.LIST_TASKS):
    add_case(f"{_call.name}-malformed-id", f"{_call.name} of a malformed id is internal.", _malformed_id(_call))


@case
def get_job_state_leaves_out(iris: Iris) -> None:
    """GetJobState says nothing of ids that are unknown or malformed."""
    job_id = iris.launch("job", SLEEP)
    states = iris.call(calls.GET_JOB_STATE, job_ids=[job_id, f"/{iris.user}/none", "noslash", "", "/a//b"]).states
    assert list(states) == [job_id]
    assert not iris.call(calls.GET_JOB_STATE, job_ids=["/nobody/none"]).states
    assert not iris.call(calls.GET_JOB_STATE).states
    iris.terminate(job_id)


@case
def list_tasks_unknown_id(iris: Iris) -> None:
    """ListTasks of an unknown job is empty, and without an id is refused."""
    assert iris.tasks(f"/{iris.user}/none") == []
    refusal = iris.refused(calls.LIST_TASKS)
    assert refusal.code == "invalid_argument"
    assert "job_id is required" in str(refusal)
