"""Lists, and who one is."""

from __future__ import annotations

from typing import Any

from casebook import case
from iris_under_test import NEVER, Iris

from fray_airflow.iris import calls
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller


def _listed(iris: Iris, **query: Any) -> list[str]:
    """The last parts of the names of the jobs that a query finds."""
    return [job.job_id.rpartition("/")[2] for job in iris.call(calls.LIST_JOBS, query={"limit": 100, **query}).jobs]


@case
def who_am_i(iris: Iris) -> None:
    """Without authentication everybody is the administrator `anonymous`."""
    me = iris.call(calls.GET_CURRENT_USER)
    assert (me.user_id, me.role) == ("anonymous", "admin")


@case
def list_jobs(iris: Iris) -> None:
    """Jobs are found by id prefix, by part of the name, by state; the newest come first."""
    done, failed, waiting = (
        iris.launch("Done-1"),
        iris.launch("failed_2", ("false",)),
        iris.launch("w%3", constraints=NEVER),
    )
    iris.finished(done)
    iris.finished(failed)
    mine = {"job_id_prefix": f"/{iris.user}/"}
    assert _listed(iris, **mine) == ["w%3", "failed_2", "Done-1"]
    assert _listed(iris, job_id_prefix=f"/{iris.user.upper()}/DONE") == ["Done-1"]
    for pattern in (f"/{iris.user}/%", f"/{iris.user}/done_1", iris.user):
        assert _listed(iris, job_id_prefix=pattern) == []
    assert _listed(iris, name_filter=f"{iris.user}/DONE") == ["Done-1"]
    assert _listed(iris, **mine, state_filter="Failed") == ["failed_2"]
    assert _listed(iris, **mine, state_filter="pending") == ["w%3"]
    assert _listed(iris, **mine, state_filter="bogus") == []
    iris.terminate(waiting)


@case
def list_jobs_wildcards(iris: Iris) -> None:
    """In a part of a name % means any text and _ any character; in an id prefix they mean themselves."""
    for name in ("a_b", "axb", "ab"):
        iris.launch(name)
    assert _listed(iris, name_filter=f"{iris.user}/a_b") == ["axb", "a_b"]
    assert _listed(iris, name_filter=f"{iris.user}/a%b") == ["ab", "axb", "a_b"]
    assert _listed(iris, job_id_prefix=f"/{iris.user}/a_") == ["a_b"]
    assert _listed(iris, job_id_prefix=f"/{iris.user}/a%") == []


@case
def list_jobs_pages(iris: Iris) -> None:
    """A list comes in pages, with the total and whether there is more."""
    for name in "abc":
        iris.launch(name)
    query = {"job_id_prefix": f"/{iris.user}/", "limit": 2}
    page = iris.call(calls.LIST_JOBS, query=query)
    assert (len(page.jobs), page.total_count, page.has_more) == (2, 3, True)
    page = iris.call(calls.LIST_JOBS, query={**query, "offset": 2})
    assert (len(page.jobs), page.total_count, page.has_more) == (1, 3, False)
    assert not page.jobs[0].HasField("resources")


@case
def list_jobs_sorted(iris: Iris) -> None:
    """Dates are sorted downwards unless said otherwise, names upwards."""
    for name in ("b", "a", "c"):
        iris.launch(name)
    mine = {"job_id_prefix": f"/{iris.user}/"}
    assert _listed(iris, **mine, sort_field=Controller.JOB_SORT_FIELD_NAME) == ["a", "b", "c"]
    down = Controller.SORT_DIRECTION_DESC
    assert _listed(iris, **mine, sort_field=Controller.JOB_SORT_FIELD_NAME, sort_direction=down) == ["c", "b", "a"]
    assert _listed(iris, **mine, sort_direction=Controller.SORT_DIRECTION_ASC) == ["b", "a", "c"]


@case
def list_jobs_scopes(iris: Iris) -> None:
    """Roots and children can be listed apart; children need their parent."""
    parent = iris.launch("parent", ("sleep", "300"))
    iris.launch(f"{parent}/child", ("sleep", "300"))
    mine = {"job_id_prefix": f"/{iris.user}/"}
    assert _listed(iris, **mine) == ["child", "parent"]
    assert _listed(iris, **mine, scope=Controller.JOB_QUERY_SCOPE_ROOTS) == ["parent"]
    children = Controller.JOB_QUERY_SCOPE_CHILDREN
    assert _listed(iris, scope=children, parent_job_id=parent) == ["child"]
    assert iris.refused(calls.LIST_JOBS, query={"scope": children, "limit": 100}).code == "invalid_argument"
    iris.terminate(parent)


@case
def list_jobs_bounds(iris: Iris) -> None:
    """A limit that is not said, or too high, means 500 jobs; an offset may be 5000 and no more."""
    names = [iris.launch(name) for name in "ab"]
    for limit in (0, -1, 501):
        query = {"job_id_prefix": f"/{iris.user}/", "limit": limit}
        assert len(iris.call(calls.LIST_JOBS, query=query).jobs) == len(names)
    assert iris.refused(calls.LIST_JOBS, query={"offset": 5001}).code == "invalid_argument"
    assert not iris.call(calls.LIST_JOBS, query={"offset": 5000}).jobs


@case
def list_workers_of_a_fleet(iris: Iris) -> None:
    """Workers are listed once they have registered."""
    job_id = iris.launch()
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED
    assert iris.task(job_id).worker_id in iris.attributes()


@case
def unknown_method(iris: Iris) -> None:
    """A method that does not exist is unimplemented."""
    unknown = calls.Call("Nope", calls.CONTROLLER + "Nope", job_pb2.Empty, job_pb2.Empty)
    assert iris.refused(unknown).code == "unimplemented"
