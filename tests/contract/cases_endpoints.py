"""The endpoint registry, by which tasks of different jobs find each other."""

from __future__ import annotations

import json
from typing import Any

from casebook import case
from iris_under_test import NEVER, SLEEP, Iris

from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris import convert_entrypoint
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.calls import Call
from fray_airflow.job import Entrypoint, Rendezvous

SERVICE = "/iris.cluster.EndpointService/"
REGISTER = Call(
    "RegisterEndpoint",
    SERVICE + "RegisterEndpoint",
    Controller.RegisterEndpointRequest,
    Controller.RegisterEndpointResponse,
)
UNREGISTER = Call(
    "UnregisterEndpoint", SERVICE + "UnregisterEndpoint", Controller.UnregisterEndpointRequest, job_pb2.Empty
)
LIST = Call(
    "ListEndpoints", SERVICE + "ListEndpoints", Controller.ListEndpointsRequest, Controller.ListEndpointsResponse
)

ADDRESS = "127.0.0.1:4711"
RECREATE = job_pb2.EXISTING_JOB_POLICY_RECREATE


def _register(iris: Iris, task_id: str, name: str, **fields: Any) -> Controller.RegisterEndpointResponse:
    return iris.call(REGISTER, name=f"{iris.user}/{name}", task_id=task_id, **{"address": ADDRESS, **fields})


def _names(iris: Iris, **fields: Any) -> list[str]:
    """What is registered, without the user's name before it."""
    found = iris.call(LIST, **{"prefix": f"{iris.user}/", **fields}).endpoints
    return sorted(each.name.removeprefix(f"{iris.user}/") for each in found)


@case
def endpoint_listed(iris: Iris) -> None:
    """What a running task registers is listed for everybody, by the beginning of its name, the whole, or its task."""
    job_id = iris.launch(argv=SLEEP, replicas=2)
    iris.running(job_id)
    _register(iris, f"{job_id}/0", "train/0", metadata={"a": "b"})
    _register(iris, f"{job_id}/1", "train/1")
    (found,) = iris.call(LIST, prefix=f"{iris.user}/train/0", exact=True).endpoints
    assert (found.name, found.address, found.task_id) == (f"{iris.user}/train/0", ADDRESS, f"{job_id}/0")
    assert dict(found.metadata) == {"a": "b"}
    assert _names(iris) == ["train/0", "train/1"]
    assert _names(iris, task_ids=[f"{job_id}/1"]) == ["train/1"]
    assert _names(iris, prefix="", task_ids=[f"{job_id}/1"]) == ["train/1"]
    assert _names(iris, prefix=f"{iris.user}/train", exact=True) == []


@case
def endpoint_renewed(iris: Iris) -> None:
    """A task that registers a name again replaces its entry; one of another task under the same name stays."""
    job_id = iris.launch(argv=SLEEP, replicas=2)
    iris.running(job_id)
    first = _register(iris, f"{job_id}/0", "name")
    second = _register(iris, f"{job_id}/0", "name", address="127.0.0.1:4712")
    assert first.endpoint_id != second.endpoint_id
    (found,) = iris.call(LIST, prefix=f"{iris.user}/").endpoints
    assert (found.endpoint_id, found.address) == (second.endpoint_id, "127.0.0.1:4712")
    _register(iris, f"{job_id}/1", "name")
    assert _names(iris) == ["name", "name"]
    for _ in range(2):
        iris.call(UNREGISTER, endpoint_id=second.endpoint_id)
    assert _names(iris) == ["name"]


@case
def endpoint_lease(iris: Iris) -> None:
    """A lease has between three and ten minutes, ten unless asked for less."""
    job_id = iris.launch(argv=SLEEP)
    iris.running(job_id)
    for asked, granted in ((None, 600), (1, 180), (300, 300), (3600, 600)):
        fields = {} if asked is None else {"lease_duration": {"milliseconds": asked * 1000}}
        given = _register(iris, f"{job_id}/0", "name", **fields)
        assert given.lease_duration.milliseconds == granted * 1000


@case
def endpoint_refused(iris: Iris) -> None:
    """Only a task that lives registers, in its current attempt."""
    job_id = iris.launch(argv=SLEEP)
    iris.running(job_id)
    name = {"name": f"{iris.user}/name", "address": ADDRESS}
    error = iris.refused(REGISTER, task_id=f"{job_id}/7", **name)
    assert error.code == "not_found"
    assert f"Task {job_id}/7 not found" in str(error)
    error = iris.refused(REGISTER, task_id=f"{job_id}/0", attempt_id=5, **name)
    assert error.code == "failed_precondition"
    assert f"Task {job_id}/0 attempt 5 is no longer current" in str(error)
    error = iris.refused(REGISTER, task_id=job_id, **name)
    assert error.code == "internal"
    assert f"JobName is not a task: {job_id}" in str(error)
    waiting = iris.launch("waiting", constraints=NEVER)
    error = iris.refused(REGISTER, task_id=f"{waiting}/0", **name)
    assert f"Task {waiting}/0 attempt 0 is no longer current" in str(error)
    iris.terminate(job_id)
    error = iris.refused(REGISTER, task_id=f"{job_id}/0", **name)
    assert f"Task {job_id}/0 is already terminal; endpoint not registered" in str(error)
    assert _names(iris) == []


@case
def endpoint_outlives_its_task(iris: Iris) -> None:
    """The end of a task leaves its entry where it is; its next attempt replaces it, and the former cannot come back."""
    script = 'case "$IRIS_TASK_ID" in *:0) sleep 4; exit 3;; esac; sleep 4'
    job_id = iris.launch(argv=("sh", "-c", script), max_retries_failure=1, max_task_failures=1)
    iris.running(job_id)
    _register(iris, f"{job_id}/0", "first")
    _register(iris, f"{job_id}/0", "both")
    iris.until(
        lambda: iris.task(job_id),
        lambda task: task.current_attempt_id == 1 and task.state == job_pb2.TASK_STATE_RUNNING,
    )
    assert _names(iris) == ["both", "first"]
    iris.refused(REGISTER, name=f"{iris.user}/late", address=ADDRESS, task_id=f"{job_id}/0", attempt_id=0)
    _register(iris, f"{job_id}/0", "both", attempt_id=1, address="127.0.0.1:4712")
    assert _names(iris) == ["both", "first"]
    iris.finished(job_id)
    found = {each.name: each.address for each in iris.call(LIST, prefix=f"{iris.user}/").endpoints}
    assert found == {f"{iris.user}/first": ADDRESS, f"{iris.user}/both": "127.0.0.1:4712"}


@case
def endpoint_removed(iris: Iris) -> None:
    """Who terminates a job, or replaces it, removes the entries of its tasks."""
    killed = iris.launch("killed", argv=SLEEP)
    replaced = iris.launch("replaced")
    iris.running(killed)
    _register(iris, f"{killed}/0", "killed")
    iris.finished(replaced)
    replaced = iris.launch("replaced", argv=("sleep", "4"), existing_job_policy=RECREATE)
    iris.running(replaced)
    _register(iris, f"{replaced}/0", "replaced")
    assert _names(iris) == ["killed", "replaced"]
    iris.terminate(killed)
    assert _names(iris) == ["replaced"]
    iris.finished(replaced)
    assert _names(iris) == ["replaced"]
    iris.launch("replaced", argv=SLEEP, existing_job_policy=RECREATE)
    assert _names(iris) == []


@case
def endpoint_rendezvous(iris: Iris) -> None:
    """Tasks of two jobs find each other with the script that is shipped with them, and agree on a coordinator."""
    report = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k[:4] in ('MEGA', 'FRAY')}))"
    jobs = [f"/{iris.user}/job", f"/{iris.user}/job-s1"]
    runtime = convert_entrypoint(Entrypoint(command=("python", "-c", report), rendezvous=Rendezvous(2, 80)))
    for number, name in enumerate(jobs):
        marks = {
            LAUNCH_ENV: "abc.def",
            "FRAY_AIRFLOW_SLICE_INDEX": str(number),
            "FRAY_AIRFLOW_SLICE_JOBS": ",".join(jobs),
        }
        iris.launch(
            name,
            entrypoint=runtime,
            replicas=2,
            environment={"env_vars": marks},
        )
    told = []
    for name in jobs:
        assert iris.finished(name).state == job_pb2.JOB_STATE_SUCCEEDED
        told += [json.loads(line) for line in iris.printed(name, 3) if line.startswith("{")]
    assert len({each["MEGASCALE_COORDINATOR_ADDRESS"] for each in told}) == 1
    assert len({each["FRAY_AIRFLOW_COORDINATOR_ADDRESS"] for each in told}) == 1
    assert sorted(each["FRAY_AIRFLOW_PROCESS_INDEX"] for each in told) == ["0", "1", "2", "3"]
    assert sorted(each["MEGASCALE_SLICE_ID"] for each in told) == ["0", "0", "1", "1"]
