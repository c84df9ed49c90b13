"""Which jobs the page finds in Airflow's database."""

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG

from fray_airflow.testing.airflow import prepare_database

RUN = "shown"


@pytest.fixture(scope="module")
def pushed():
    """`pushed(task_id, key=value)` pushes XComs of a task of one DAG run, and returns what is then found."""
    prepare_database()
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.xcom import XComModel
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    from fray_airflow.plugins.page import launches

    tasks = ["sliced", "single", "foreign", "both", "none"]
    with DAG("found", schedule=None) as dag:
        for task_id in tasks:
            EmptyOperator(task_id=task_id)
    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    bag = DagBag(dag_folder="/dev/null")
    bag.bag_dag(dag)
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        run = SerializedDagModel.get_dag("found", session=session).create_dagrun(
            run_id=RUN,
            logical_date=None,
            run_after=datetime.now(UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        run_key = run.id

    def push(task_id, **xcoms):
        with create_session() as session:
            for key, value in xcoms.items():
                where = {"dag_id": "found", "run_id": RUN, "task_id": task_id, "map_index": -1}
                session.add(XComModel(dag_run_id=run_key, key=key, value=value, **where))
        return launches.one("found", RUN, task_id, -1)

    return push


def test_all_jobs_of_a_launch_are_found_with_their_connection(pushed):
    """From the one XCom that names them all."""
    found = pushed(
        "sliced", iris_jobs={"v": 1, "iris_conn_id": "iris_b", "job_ids": ["/a/x-s0", "/a/x-s1"], "on_kill": ""}
    )
    assert (found.conn_id, found.job_ids) == ("iris_b", ("/a/x-s0", "/a/x-s1"))


def test_a_single_job_is_found_by_its_own_xcom(pushed):
    """Its connection is then the default one, unless what was rendered tells."""
    found = pushed("single", job_id="/a/y")
    assert (found.conn_id, found.job_ids) == ("iris_default", ("/a/y",))


def test_the_richer_xcom_counts(pushed):
    """Where a task has pushed both."""
    found = pushed("both", job_id="/a/z", iris_jobs={"v": 2, "iris_conn_id": "iris_b", "job_ids": ["/a/z", "/a/z2"]})
    assert found.job_ids == ("/a/z", "/a/z2")


@pytest.mark.parametrize("value", ["local-1234", 17, {"job_ids": "x"}, ["/a/b"], None])
def test_a_job_id_of_another_service_is_none_of_ours(value):
    """`job_id` is a key that other operators use too."""
    from fray_airflow.plugins.page.launches import _jobs

    assert _jobs(value)[0] == ()


def test_a_task_without_a_job_has_none(pushed):
    """Nothing was pushed."""
    assert pushed("none") is None
    assert pushed("foreign", job_id="local-1234") is None
