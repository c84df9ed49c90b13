"""Every example DAG, run to its end in real Airflow on the local Iris with real processes."""

import json
import re
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest

from fray_airflow.local import Fleet, LocalIris
from fray_airflow.testing.airflow import load_dags, prepare_database, run_dag

DAGS = Path(__file__).parents[2] / "dags"
LONGEST_EXAMPLE = 40


@pytest.fixture(scope="session")
def dags():
    prepare_database()
    return load_dags(DAGS)


@pytest.fixture
def store():
    """Where the tasks of a pipeline meet: not below /tmp, which is each task's own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


def finished(runs):
    return {task: run.value for (task, index), run in runs.items() if run.state == "success" and index == -1}


def test_no_example_is_longer_than_a_screen():
    """An example that does not fit is not one."""
    lengths = {path.name: len(path.read_text().splitlines()) for path in DAGS.glob("*.py")}
    assert max(lengths.values()) <= LONGEST_EXAMPLE


def test_the_pipeline_trains_a_model_and_publishes_its_perplexity(running, dags, store):
    """The gang of two hosts counts and merges; evaluation on a GPU host reads what it wrote."""
    values = finished(run_dag(dags["train_pipeline"], {"store": str(store)}))
    assert set(values) == {"tokenise", "train", "evaluate", "publish"}
    assert len({row["slice"] for row in values["train"]["placement"]}) == 1
    assert len(values["train"]["placement"]) == 2
    assert 10 < values["publish"]["perplexity"] < 60
    assert len(list(store.rglob("counts-*.json"))) == 2


def test_hello_returns_its_greeting(running, dags):
    """One command, one line of result."""
    assert finished(run_dag(dags["cpu_hello"]))["hello"]["result"] == {"greeted": True}


def test_a_function_of_the_dag_file_trains_on_a_gpu_host(running, dags):
    """The DAG file is not on the cluster, its function runs there all the same."""
    assert finished(run_dag(dags["gpu_train"]))["train"]["result"] == {"loss": 1.311}


def test_two_slices_run_one_program(connect, dags):
    """All four of its processes reach the coordinator."""
    with LocalIris(Fleet.of(tpu={"v5p-16": 2})) as iris:
        connect(iris.target)
        met = finished(run_dag(dags["tpu_multislice"]))["train"]
    assert met == ["process 1 on slice 0", "process 2 on slice 1", "process 3 on slice 1"]


def test_a_sensor_lets_the_next_task_go_when_the_gang_is_placed(running, dags):
    """Placement comes while the job still runs, and names one slice."""
    values = finished(run_dag(dags["sensor_chain"]))
    assert values["launch"]["state"] in ("PENDING", "RUNNING")
    assert len(values["announce"]) == 1


def assert_best_rate_wins(runs):
    # Mapped instances start in any order.
    values = {task: [run.value for (name, _), run in sorted(runs.items()) if name == task] for task, _ in runs}
    assert [run.state for run in runs.values()] == ["success"] * 5
    assert [run["rate"] for run in values["train"]] == [0.03, 0.3, 1.1]
    (best,) = values["pick_best"]
    assert best["rate"] == 1.1
    assert abs(best["slope"] - 3) < 0.001


def test_functions_run_on_slices_and_the_best_result_wins(running, dags):
    """Arguments go out and results come home: a list to three mapped jobs, their dicts to a task of Airflow's own."""
    assert_best_rate_wins(run_dag(dags["taskflow"]))


def test_the_same_functions_run_on_a_real_iris(real_iris_connect, connect, dags):
    """Results come over its own log service."""
    connect(real_iris_connect.target)
    assert_best_rate_wins(run_dag(dags["taskflow"]))


def test_outputs_fan_out_and_the_context_comes_along(running):
    """Each key of the result is an XCom of its own; the date is a text, and the times the standard library's."""
    from airflow.sdk import DAG, task

    with DAG("outputs", schedule=None) as dag:

        @task.iris(multiple_outputs=True)
        def split(logical_date, run_id, *, ti_run):
            return {"module": type(logical_date).__module__, "same": run_id == ti_run, "number": 1}

        @task
        def join(module, same, number):
            return [module, same, number]

        parts = split(ti_run="{{ ti.run_id }}")
        join(parts["module"], parts["same"], parts["number"])
    prepare_database()
    runs = run_dag(dag)
    assert runs["join", -1].value == ["datetime", True, 1]


def test_one_operator_maps_over_specs(running):
    """`.partial().expand()` makes one job per spec, each under a name of its own."""
    from airflow.sdk import DAG

    from fray_airflow import ResourceConfig
    from fray_airflow.operators import IrisSubmitJobOperator

    with DAG("mapped", schedule=None) as dag:
        IrisSubmitJobOperator.partial(task_id="sweep", command=["true"]).expand(
            resource_config=[ResourceConfig.with_cpu(cpu=1), {"tpu": "v5p-8"}, ResourceConfig.with_gpu("H100")]
        )
    prepare_database()
    runs = run_dag(dag)
    assert {run.state for run in runs.values()} == {"success"}
    assert len({run.value["job_id"] for run in runs.values()}) == 3


def test_a_sensor_lets_training_begin_when_its_slices_are_free(running, dags):
    """The pair of slices is free, the job is launched, and another sensor waits for its end."""
    values = finished(run_dag(dags["capacity_gate"]))
    assert (values["free"]["wanted"], values["free"]["free"]) == (2, 2)
    assert values["trained"]["state"] == "SUCCEEDED"


def test_the_example_of_the_sensors_page_runs(running):
    """Its three sensors follow one job from the free slice to its end."""
    (code,) = re.findall(r"```python\n(.*?)```", (DAGS.parent / "docs" / "sensors.md").read_text(), re.DOTALL)
    namespace = {}
    exec(code, namespace)  # noqa: S102
    prepare_database()
    values = finished(run_dag(namespace["dag"]))
    assert set(values) == {"free", "launch", "placed", "trained"}
    assert len(values["placed"]) == 2


def test_an_assets_event_tells_of_the_job_that_made_it(running, dags):
    """The next DAG is due because of it, and finds the job and its result in it."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.asset import AssetDagRunQueue, AssetEvent
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    sync_bag_to_db(DagBag(dag_folder=str(DAGS / "asset_chain.py")), "dags-folder", None)
    with create_session() as session:
        session.execute(update(DagModel).where(DagModel.dag_id == "asset_publish").values(is_paused=False))
    value = finished(run_dag(dags["asset_train"]))["train"]
    assert value["result"]["loss"] == 0.25
    with create_session() as session:
        event = session.scalars(select(AssetEvent).order_by(AssetEvent.id.desc())).first()
        assert event.asset.name == "iris_example_model"
        names = ("job_id", "state", "queue_seconds", "run_seconds", "chip_seconds", "result")
        assert event.extra == {name: value[name] for name in names}
        assert "asset_publish" in session.scalars(select(AssetDagRunQueue.target_dag_id)).all()


def test_a_notifier_tells_of_the_job_that_failed(running, connect, dags, store):
    """Which one, where it is to be seen, what was wrong with it and in which replica that began."""
    connect(running.target, extra={"dashboard_url": "https://iris.example.com"})
    (run,) = run_dag(dags["notify"], {"told": str(store / "told.json")}).values()
    assert run.state == "failed"
    told = json.loads((store / "told.json").read_text())
    assert told["job_id"].startswith("/airflow/notify-train-")
    assert told["link"].endswith(quote(told["job_id"], safe=""))
    assert (told["task"], told["state"], told["machines"]) == ("train", "FAILED", "1 x 1 cores")
    assert (told["failed_replica"], told["exit_code"]) == (0, 3)
    assert told["error"].startswith("JobFailedError: ")
    assert "out of data" in told["error"]


def test_setup_and_teardown_run_on_iris_around_a_task_that_fails(running, tmp_path):
    """The teardown runs all the same, with what the setup returned."""
    from airflow.sdk import DAG, setup, task, teardown

    with DAG("around", schedule=None) as dag:

        @setup
        @task.iris(resource_config={"cpu": 1})
        def rent():
            return "room 7"

        @task.iris(resource_config={"cpu": 1})
        def work(where):
            raise ValueError(where)

        @teardown
        @task.iris(resource_config={"cpu": 1})
        def leave(where):
            return f"left {where}"

        room = rent()
        room >> work(room) >> leave(room)
    prepare_database()
    runs = run_dag(dag)
    assert [(task, run.state) for (task, _), run in runs.items()] == [
        ("rent", "success"),
        ("work", "failed"),
        ("leave", "success"),
    ]
    assert runs["leave", -1].value == "left room 7"
