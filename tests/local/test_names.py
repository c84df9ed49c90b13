"""Job ids: their shape, and what each RPC makes of one that is malformed or unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.iris._gen import controller_pb2
from fray_airflow.local.names import is_job_name, parse_job_name

C = controller_pb2.Controller

segment = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(user=segment, path=st.lists(segment, min_size=1, max_size=4))
def test_a_name_survives_parsing(user, path):
    """Any characters but the slash may stand in a name, and parsing gives back what went in."""
    text = "/".join(["", user, *path])
    name = parse_job_name(text)
    assert (name.user, list(name.path), name.job_id) == (user, path, text)
    assert bool(name.parent_id) == (len(path) > 1)


@given(text=st.text())
def test_a_text_is_a_name_or_a_value_error(text):
    """Nothing else ever comes out of the parser."""
    assert is_job_name(text) == (
        text.startswith("/") and text.count("/") > 1 and all(map(str.strip, text.split("/")[1:]))
    )


@pytest.mark.parametrize("name", ["noslash", "/onlyuser"])
def test_a_name_without_user_and_job_is_an_internal_error(iris, job, name):
    """A bad name is the caller's fault and yet answered with `internal`."""
    error = iris.refusal("LaunchJob", job(name))
    assert error.code == "internal"
    assert error.message == (f"RPC LaunchJob: Job name must use canonical '/<user>/<job>[...]' format: {name}")
    assert error.details.exception_type == "builtins.ValueError"


@pytest.mark.parametrize("name", ["/a//b", "/a/ ", "/a/b/"])
def test_a_blank_component_is_an_internal_error(iris, job, name):
    error = iris.refusal("LaunchJob", job(name))
    assert error.code == "internal"
    assert "contains empty or whitespace-only component" in error.message


def test_an_empty_name_is_an_invalid_argument(iris, job):
    error = iris.refusal("LaunchJob", job(""))
    assert (error.code, error.message) == ("invalid_argument", "Job name is required")


@pytest.mark.parametrize("name", ["/a/with space", "/a/ümläut:%\t", "/a/" + "x" * 500, "/a/42"])
def test_characters_and_length_are_free(iris, job, name):
    assert iris.launch(job(name)) == name


def test_case_is_kept_in_ids_and_lost_in_names(iris, job):
    """Lookups are case-sensitive; JobStatus.name and the echoed name are lower-cased."""
    iris.launch(job("/Alice/Train"))
    status = iris.status("/Alice/Train")
    assert (status.job_id, status.name, iris.echo("/Alice/Train").name) == (
        "/Alice/Train",
        "/alice/train",
        "/alice/train",
    )
    assert iris.refusal("GetJobStatus", C.GetJobStatusRequest(job_id="/alice/train")).code == "not_found"


@pytest.mark.parametrize(
    ("method", "request_type"), [("GetJobStatus", C.GetJobStatusRequest), ("TerminateJob", C.TerminateJobRequest)]
)
def test_single_job_calls_tell_malformed_from_unknown(iris, method, request_type):
    assert iris.refusal(method, request_type(job_id="nope")).code == "internal"
    unknown = iris.refusal(method, request_type(job_id="/a/none"))
    assert (unknown.code, unknown.message) == ("not_found", "Job /a/none not found")


def test_get_job_state_leaves_out_what_it_does_not_know(iris, job):
    iris.launch(job("/a/j"))
    states = iris.call("GetJobState", C.GetJobStateRequest(job_ids=["/a/j", "/a/none", "malformed"])).states
    assert dict(states) == {"/a/j": 1}


def test_list_tasks_of_an_unknown_job_is_empty(iris):
    assert iris.tasks("/a/none") == []
    assert iris.refusal("ListTasks", C.ListTasksRequest(job_id="nope")).code == "internal"
    empty = iris.refusal("ListTasks", C.ListTasksRequest())
    assert (empty.code, empty.message) == ("invalid_argument", "job_id is required")


def test_a_child_needs_a_living_parent(iris, job):
    """Three components make a child of the job that the others name."""
    absent = iris.refusal("LaunchJob", job("/alice/nope/child"))
    assert (absent.code, absent.message) == (
        "failed_precondition",
        "Cannot submit job: parent job /alice/nope is absent from the database",
    )
    iris.launch(job("/alice/p"))
    iris.launch(job("/alice/p/child"))
    iris.terminate("/alice/p")
    ended = iris.refusal("LaunchJob", job("/alice/p/late"))
    assert ended.message.endswith("has terminated (state=JOB_STATE_KILLED)")


def test_a_child_ends_with_its_parent(iris, job):
    iris.launch(job("/a/p", tpu="v5p-8", band="BATCH"))
    iris.launch(job("/a/p/c"))
    assert iris.status("/a/p").has_children
    assert iris.status("/a/p/c").parent_job_id == "/a/p"
    assert iris.echo("/a/p/c").priority_band == iris.echo("/a/p").priority_band
    iris.terminate("/a/p")
    assert (iris.state("/a/p/c"), iris.status("/a/p/c").error) == ("KILLED", "Parent job terminated")
