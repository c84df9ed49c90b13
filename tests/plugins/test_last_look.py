"""Jobs of tasks that are marked when nobody watches them, in a real Airflow database and behind its real API."""

import contextlib
import itertools
import logging
import sys
import threading
import time
import uuid
from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferred

from fray_airflow.iris import IrisClient
from fray_airflow.iris.launch import RECREATE
from fray_airflow.iris.submission import prepare
from fray_airflow.job import Entrypoint, JobRequest
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.plugins import IrisPlugin
from fray_airflow.plugins.last_look import LastLooks, MarkListener
from fray_airflow.resources import ResourceConfig
from fray_airflow.task_state import JOBS_KEY
from fray_airflow.testing.airflow import iris_connection, prepare_database
from fray_airflow.testing.operator import TaskInstance, execute_once

DAG_ID, TASK_ID = "marked", "train"
LONGEST_WAIT = 20
_NUMBERS = itertools.count()


class Submit(IrisSubmitJobOperator):
    defer_after_seconds = 0


def submit(**arguments):
    with DAG(DAG_ID, schedule=None):
        return Submit(**{"task_id": TASK_ID, "command": ["true"], "deferrable": True, **arguments})


@pytest.fixture(scope="module")
def airflow():
    """The database, with the DAG."""
    prepare_database()
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.utils.session import create_session

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    bag = DagBag(dag_folder="/dev/null")
    bag.bag_dag(submit().dag)
    sync_bag_to_db(bag, "dags-folder", None)


@pytest.fixture(scope="module")
def api(airflow):
    """Airflow's API server, without a socket."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "0123456789abcdef" * 4)
        with TestClient(create_app("core")) as client:
            client.headers["authorization"] = f"Bearer {client.get('/auth/token').json()['access_token']}"
            yield client


class Launched:
    """A task instance of a run of its own that was deferred, with what its operator pushed."""

    def __init__(self, **arguments):
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        self.run_id = f"run-{next(_NUMBERS)}"
        ti = TaskInstance(DAG_ID, self.run_id, TASK_ID)
        with contextlib.suppress(TaskDeferred):
            execute_once(submit(**arguments), ti)
        self.job_id, self.told = ti.xcoms["job_id"], ti.xcoms[JOBS_KEY]
        with create_session() as session:
            run = SerializedDagModel.get_dag(DAG_ID, session=session).create_dagrun(
                run_id=self.run_id,
                logical_date=None,
                run_after=datetime.now(UTC),
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.RUNNING,
                session=session,
            )
            where = {"dag_id": DAG_ID, "run_id": self.run_id, "task_id": TASK_ID, "map_index": -1}
            for key, value in ti.xcoms.items():
                session.add(XComModel(dag_run_id=run.id, key=key, value=value, **where))
        self.set(state="deferred")
        self.try_id = self.row().id

    def row(self, session=None):
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        query = select(TaskInstance).where(TaskInstance.dag_id == DAG_ID, TaskInstance.run_id == self.run_id)
        if session is not None:
            return session.scalars(query).one()
        with create_session() as own:
            return own.scalars(query).one()

    def set(self, **values):
        from airflow.utils.session import create_session

        with create_session() as session:
            row = self.row(session)
            for name, value in values.items():
                setattr(row, name, value)


def until(condition):
    deadline = time.monotonic() + LONGEST_WAIT
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def job_state(iris, job_id):
    with IrisClient(iris.target) as client:
        return client.job_status(job_id).state.name


def look(*launched):
    return end_leftovers([each.try_id for each in launched])


def end_leftovers(marks):
    from fray_airflow.plugins import leftovers

    return leftovers.end_leftovers(marks)


@pytest.mark.parametrize("state", ["failed", "success", "skipped"])
def test_the_job_of_a_marked_task_that_still_runs_is_terminated(airflow, iris, state):
    """Nobody was told of the mark. A second look finds nothing more to do."""
    launched = Launched()
    launched.set(state=state)
    assert look(launched) == set()
    assert job_state(iris, launched.job_id) == "KILLED"
    assert look(launched) == set()
    assert iris.calls["TerminateJob"] == 1


@pytest.mark.parametrize(
    "arguments", [{"on_kill_action": "keep"}, {"wait_for_completion": False}], ids=["keep", "no wait"]
)
def test_a_job_that_is_to_be_kept_is_left_alone(airflow, iris, arguments):
    """Its author said so."""
    launched = Launched(**arguments)
    launched.set(state="failed")
    assert look(launched) == set()
    assert iris.calls["TerminateJob"] == 0


def test_every_slice_of_a_launch_is_terminated(airflow, iris):
    """A launch with a job per slice tells of them all."""
    launched = Launched(resource_config={"tpu": "v5p-8", "slice_count": 2}, slice_strategy="job_per_slice")
    launched.set(state="failed")
    look(launched)
    assert [job_state(iris, job_id) for job_id in launched.told["job_ids"]] == ["KILLED", "KILLED"]


@pytest.mark.parametrize("state", ["deferred", "running", "queued", "scheduled", "up_for_retry", "restarting", None])
def test_a_task_that_goes_on_keeps_its_job(airflow, iris, state):
    """The request that marked it was not committed, or somebody had it go on since."""
    launched = Launched()
    launched.set(state=state)
    look(launched)
    assert iris.calls["TerminateJob"] == 0


def test_a_task_that_was_cleared_since_is_its_next_trys_affair(airflow, iris):
    """Also when that one has ended by now."""
    launched = Launched()
    launched.set(state="failed", id=uuid.uuid4())
    look(launched)
    assert iris.calls["TerminateJob"] == 0


def test_a_job_that_has_ended_is_not_terminated(airflow, iris):
    """As a rule the trigger or the worker has ended it long before."""
    launched = Launched()
    launched.set(state="failed")
    with IrisClient(iris.target) as client:
        client.terminate(launched.job_id)
    look(launched)
    assert iris.calls["TerminateJob"] == 1


def test_a_job_that_somebody_else_has_submitted_under_the_name_is_left_alone(airflow, iris):
    """It does not have our token."""
    launched = Launched()
    launched.set(state="failed")
    with IrisClient(iris.target) as client:
        client.terminate(launched.job_id)
        _, user, name = launched.job_id.split("/")
        job = JobRequest(name=name, entrypoint=Entrypoint.from_binary("true"), resources=ResourceConfig(cpu=1))
        client.launch(prepare(job, user=user, existing_job_policy=RECREATE))
    look(launched)
    assert iris.calls["TerminateJob"] == 1
    assert job_state(iris, launched.job_id) != "KILLED"


def test_a_job_that_iris_has_forgotten_is_done_with(airflow, iris):
    """There is nothing to look at again."""
    launched = Launched()
    launched.set(state="failed")
    push(launched, job_ids=["/airflow/forgotten"])
    assert look(launched) == set()


def test_a_task_whose_iris_does_not_answer_is_looked_at_again(airflow, iris):
    """A connection that cannot be used holds up nobody else's."""
    lost, launched = Launched(), Launched()
    for each in (lost, launched):
        each.set(state="failed")
    push(lost, iris_conn_id="missing")
    assert look(lost, launched) == {lost.try_id}
    assert job_state(iris, launched.job_id) == "KILLED"
    push(lost, iris_conn_id="iris_default")
    iris.fault("GetJobState", code="unavailable", times=1)
    assert look(lost) == {lost.try_id}
    assert look(lost) == set()
    assert job_state(iris, lost.job_id) == "KILLED"


def test_the_connection_may_be_in_airflows_database(airflow, iris, monkeypatch):
    """As most are; API servers read them from there."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    launched = Launched()
    launched.set(state="failed")
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    with create_session() as session:
        session.add(Connection(conn_id="stored", **iris_connection(iris.target)))
    push(launched, iris_conn_id="stored")
    assert look(launched) == set()
    assert job_state(iris, launched.job_id) == "KILLED"


def test_a_refusal_holds_up_no_other_task(airflow, iris):
    """A controller may refuse one job and not another."""
    refused, launched = Launched(), Launched()
    for each in (refused, launched):
        each.set(state="failed")
    iris.fault("TerminateJob", code="permission_denied", times=1)
    assert len(look(refused, launched)) == 1
    assert look(refused, launched) == set()
    assert [job_state(iris, each.job_id) for each in (refused, launched)] == ["KILLED", "KILLED"]


@pytest.mark.parametrize("value", ["/a/b", 17, None, {"job_ids": "x"}, {"v": 1, "job_ids": ["/a/b"]}])
def test_what_others_push_under_our_key_is_ignored(airflow, iris, value):
    """Anybody may."""
    launched = Launched()
    launched.set(state="failed")
    push(launched, value)
    assert look(launched) == set()
    assert iris.calls["TerminateJob"] == 0


def push(launched, *value, **changed):
    """Replaces the XCom of the launch, or some of its fields."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(XComModel).where(XComModel.run_id == launched.run_id, XComModel.key == JOBS_KEY)
        xcom = session.scalars(query).one()
        xcom.value = value[0] if value else {**xcom.value, **changed}


class Looked:
    """Takes down what was to be looked at, instead of looking."""

    def __init__(self):
        self.marks = []

    def __call__(self, marks):
        self.marks += marks
        return ()


@pytest.fixture
def listening(airflow):
    """What Airflow tells our listener."""
    from airflow.listeners.listener import get_listener_manager

    looked = Looked()
    listener = MarkListener(LastLooks(looked, (0,)))
    manager = get_listener_manager()
    manager.add_listener(listener)
    yield looked
    manager.pm.unregister(listener)


@pytest.mark.parametrize("state", ["failed", "success", "skipped"])
def test_a_task_that_somebody_marks_is_looked_at(api, iris, listening, state):
    """By the button or the REST API, which are the same to Airflow."""
    launched = Launched()
    path = f"/api/v2/dags/{DAG_ID}/dagRuns/{launched.run_id}/taskInstances/{TASK_ID}"
    api.patch(path, json={"new_state": state}).raise_for_status()
    until(lambda: listening.marks == [launched.try_id])


@pytest.mark.parametrize("state", ["failed", "success"])
@pytest.mark.parametrize("before", ["deferred", "up_for_retry", "queued"])
def test_a_run_that_somebody_marks_takes_along_what_its_tasks_launched(api, iris, listening, before, state):
    """Those that were under way, and those whose next try was to adopt the job."""
    launched = Launched()
    launched.set(state=before)
    api.patch(f"/api/v2/dags/{DAG_ID}/dagRuns/{launched.run_id}", json={"state": state}).raise_for_status()
    run = (DAG_ID, launched.run_id)
    until(lambda: run in listening.marks)
    assert end_leftovers([run]) == set()
    assert job_state(iris, launched.job_id) == "KILLED"
    end_leftovers(listening.marks)
    assert iris.calls["TerminateJob"] == 1


def test_another_run_of_the_same_dag_goes_on(airflow, iris):
    """Only the marked one's jobs end."""
    launched, other = Launched(), Launched()
    for each in (launched, other):
        each.set(state="failed")
    end_leftovers([(DAG_ID, launched.run_id)])
    assert job_state(iris, launched.job_id) == "KILLED"
    assert job_state(iris, other.job_id) != "KILLED"


def test_a_task_that_fails_by_itself_is_not_looked_at(airflow, iris, listening):
    """As a scheduler tells it of a task whose runner is gone; the next try adopts the job."""
    launched = Launched()
    launched.set(state="running", try_number=1)
    launched.row().handle_failure(error="no heartbeat")
    assert launched.row().state == "failed"
    assert listening.marks == []


def test_airflow_takes_the_listener_in_api_servers_only(monkeypatch):
    """In a DAG processor it would make Airflow refuse the DAGs whose sensors have `end_from_trigger`."""
    assert IrisPlugin().listeners == []
    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.main", object())
    assert [type(each) for each in IrisPlugin().listeners] == [MarkListener]


def test_who_marks_a_task_does_not_wait_for_the_look():
    """It is made by a thread that ends neither later nor before its work."""
    go, done = threading.Event(), threading.Event()

    def look(try_ids):
        assert go.wait(LONGEST_WAIT)
        done.set()
        return ()

    looks = LastLooks(look, (0,))
    looks.add(uuid.uuid4())
    assert not done.is_set()
    (thread,) = (each for each in threading.enumerate() if each.name == "fray-airflow-last-look")
    assert thread.daemon
    go.set()
    assert done.wait(LONGEST_WAIT)
    thread.join(LONGEST_WAIT)
    assert not thread.is_alive()


def test_tries_without_an_answer_are_looked_at_a_number_of_times(caplog):
    """Whatever goes wrong with a look; then the log of the API server tells of them."""
    marked, seen = uuid.uuid4(), []

    def look(try_ids):
        seen.append(try_ids)
        if len(seen) == 2:
            raise RuntimeError("the database is away")
        return try_ids

    with caplog.at_level(logging.ERROR):
        LastLooks(look, (0, 0, 0)).add(marked)
        until(lambda: "Gave up" in caplog.text)
    assert seen == [[marked]] * 3
    assert "Gave up on the jobs of 1 marked tasks or runs" in caplog.text


def test_tries_that_are_due_are_looked_at_together():
    """A run may have thousands. One that is marked twice is looked at once."""
    first, one, other = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
    go, seen = threading.Event(), []

    def look(try_ids):
        seen.append(try_ids)
        assert go.wait(LONGEST_WAIT)
        return ()

    looks = LastLooks(look, (0,))
    looks.add(first)
    until(lambda: seen)
    for each in (one, other, one):
        looks.add(each)
    go.set()
    until(lambda: len(seen) == 2)
    assert [seen[0], sorted(seen[1])] == [[first], sorted([one, other])]


def test_looks_wait_their_time():
    """The trigger and the worker come first."""
    looked = Looked()
    LastLooks(looked, (0.3,)).add(uuid.uuid4())
    assert not looked.marks
    until(lambda: looked.marks)


@pytest.mark.parametrize(
    ("arguments", "on_kill"),
    [({}, "terminate"), ({"on_kill_action": "keep"}, "keep"), ({"wait_for_completion": False}, "keep")],
)
def test_an_operator_tells_what_it_launched(iris, arguments, on_kill):
    """In one XCom, for those who come from outside."""
    ti = TaskInstance(DAG_ID, "run", TASK_ID)
    with contextlib.suppress(TaskDeferred):
        execute_once(submit(**arguments), ti)
    told = ti.xcoms[JOBS_KEY]
    assert (told["v"], told["iris_conn_id"], told["on_kill"]) == (1, "iris_default", on_kill)
    assert told["job_ids"] == [ti.xcoms["job_id"]]
