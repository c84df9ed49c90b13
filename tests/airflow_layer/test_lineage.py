"""What OpenLineage's real provider emits of tasks on Iris, and what it leaves in a job's environment."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import DAG
from jsonschema import Draft202012Validator

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.operators import IrisSubmitJobOperator, lineage
from fray_airflow.operators.rungs import rung_job
from fray_airflow.testing.airflow import airflow_environment, iris_connection
from fray_airflow.testing.operator import run_operator

SCRIPT = Path(__file__).with_name("lineage_run.py")
SCHEMA = json.loads(Path(lineage.__file__).with_name("iris_job_run_facet.json").read_text())
NAMES = ("OPENLINEAGE_PARENT_ID", "OPENLINEAGE_ROOT_PARENT_ID", "OPENLINEAGE_CONTEXT")

pytest.importorskip("airflow.providers.openlineage", reason="the openlineage extra is not installed")


class Lineage:
    """The events of a DAG run, and how its tasks ended."""

    def __init__(self, server, events, tasks):
        self.server, self.tasks = server, tasks
        self._events = events

    def event(self, task_id, kind):
        """The last one of its kind."""
        found = [event for event in self._events if (event["job"]["name"], event["eventType"]) == (task_id, kind)]
        assert found, f"no {kind} of {task_id}"
        return found[-1]

    def job(self, task_id, kind):
        return self.event(f"lineage.{task_id}", kind)["run"]["facets"]["iris_job"]

    def names(self):
        return {event["job"]["name"] for event in self._events}

    def facets(self):
        found = (event["run"]["facets"].get("iris_job") for event in self._events)
        return [facet for facet in found if facet is not None]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("lineage")
    with LocalIris(Fleet.of(cpu=2, tpu={"v5p-16": 1}, gpu={"H100": 1})) as iris:
        connections = {
            "iris_default": iris_connection(iris.target, extra={"dashboard_url": "https://iris.example.com"}),
            "iris_nowhere": iris_connection("grpc://127.0.0.1:9"),
        }
        transport = {"type": "file", "log_file_path": str(home / "events"), "append": True}
        lineage_on = {
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "prod",
            "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "60",
        }
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(home / "tasks")],
            env={**os.environ, **airflow_environment(home, connections), **lineage_on},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (home / "events").read_text().splitlines()]
    return Lineage(iris.target.partition("://")[2], events, json.loads((home / "tasks").read_text()))


@pytest.mark.parametrize(("task_id", "device"), [("waited", "v5p-16"), ("deferred", "H100")])
def test_the_event_of_a_success_tells_of_its_job(run, task_id, device):
    """The same of a task that waited on its worker and of one that was deferred."""
    _, value = run.tasks[task_id]
    event = run.event(f"lineage.{task_id}", "COMPLETE")
    query = event["run"]["facets"]["externalQuery"]
    assert (query["externalQueryId"], query["source"]) == (value["job_id"], run.server)
    facet = run.job(task_id, "COMPLETE")
    for spelled, name in {
        "jobId": "job_id",
        "state": "state",
        "queueSeconds": "queue_seconds",
        "runSeconds": "run_seconds",
        "chipSeconds": "chip_seconds",
        "preemptionCount": "preemption_count",
        "exitCode": "exit_code",
        "placement": "placement",
    }.items():
        assert facet[spelled] == value[name], spelled
    assert (facet["device"], facet["server"], facet["connId"]) == (device, run.server, "iris_default")
    assert (facet["launches"], facet["outages"], facet["adopted"]) == (1, 0, False)
    assert facet["url"].startswith("https://iris.example.com/#/job/")
    assert facet["slices"] == sorted({row["slice"] for row in value["placement"]} - {""})


@pytest.mark.parametrize(("task_id", "code"), [("failed", 3), ("failed_deferred", 4)])
def test_the_event_of_a_failure_tells_of_its_job_too(run, task_id, code):
    """With the replica that failed first, and its exit code."""
    facet = run.job(task_id, "FAIL")
    assert (facet["state"], facet["failedReplica"], facet["exitCode"]) == ("FAILED", 0, code)
    query = run.event(f"lineage.{task_id}", "FAIL")["run"]["facets"]["externalQuery"]
    assert query["externalQueryId"] == facet["jobId"]
    assert facet["queueSeconds"] > 0


def test_the_event_of_a_start_tells_what_is_asked_for(run):
    """The job is not submitted yet."""
    facet = run.job("waited", "START")
    assert (facet["machines"], facet["device"], facet["replicas"]) == ("v5p-16", "v5p-16", 2)
    assert "jobId" not in facet
    assert "externalQuery" not in run.event("lineage.waited", "START")["run"]["facets"]


def test_a_task_that_never_had_a_job_tells_what_it_asked_for(run):
    """Its controller was not there."""
    facet = run.job("unreachable", "FAIL")
    assert (facet["connId"], facet["device"]) == ("iris_nowhere", "cpu")
    assert "jobId" not in facet


def test_an_outlet_asset_is_a_dataset(run):
    """The provider makes it one, since we name none."""
    (output,) = run.event("lineage.waited", "COMPLETE")["outputs"]
    assert output["name"] == "/models/one"


def test_every_facet_follows_the_schema_that_is_shipped(run):
    """Its `_schemaURL` is the schema's own name."""
    schema = Draft202012Validator(SCHEMA)
    facets = run.facets()
    assert len(facets) >= 15
    for facet in facets:
        schema.validate({"iris_job": facet})
        assert facet["_schemaURL"] == f"{SCHEMA['$id']}#/$defs/IrisJobRunFacet"
        assert facet["_producer"].startswith("urn:fray-airflow:")


def test_the_facet_has_the_fields_of_the_schema():
    """So that neither has one more."""
    from attrs import fields

    from fray_airflow.operators.lineage_facets import IrisJobRunFacet

    names = {each.name for each in fields(IrisJobRunFacet)}
    assert names == set(SCHEMA["$defs"]["IrisJobRunFacet"]["properties"])


def test_a_job_knows_the_task_and_the_dag_run_that_it_belongs_to(run):
    """The run ids are those of the events."""
    _, told = run.tasks["told"]
    assert set(told) == set(NAMES)
    task_run = run.event("lineage.told", "START")["run"]["runId"]
    dag_run = run.event("lineage", "FAIL")["run"]["runId"]
    assert told["OPENLINEAGE_PARENT_ID"] == f"prod/lineage.told/{task_run}"
    assert told["OPENLINEAGE_ROOT_PARENT_ID"] == f"prod/lineage/{dag_run}"


def test_dbt_ol_inside_a_job_finds_its_parent(run):
    """By the variable that new ones read, and by those that older ones read."""
    state, (newest, older) = run.tasks["dbt_ol"]
    assert state == "success"
    assert newest == older
    assert newest["run_id"] == run.event("lineage.dbt_ol", "START")["run"]["runId"]
    assert (newest["job_namespace"], newest["job_name"]) == ("prod", "lineage.dbt_ol")
    assert newest["root_parent_job_name"] == "lineage"


@pytest.mark.parametrize(("task_id", "given"), [("own", "mine/job/1"), ("off", "")])
def test_what_the_author_sets_stays_alone(run, task_id, given):
    """Half of another parent would be none; and "" keeps a job without one."""
    assert run.tasks[task_id] == ["success", {"OPENLINEAGE_PARENT_ID": given}]


def test_a_task_that_is_not_reported_is_nobodys_parent(run):
    """OpenLineage was told to emit nothing for it."""
    assert run.tasks["quiet"] == ["success", {}]
    assert "lineage.quiet" not in run.names()


def test_without_the_provider_a_job_is_as_it_was(scripted, monkeypatch):
    """The very same request, and the operator works."""
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage", None)
    scripted.script("*", Outcome.succeed())
    with DAG("pipeline", schedule=None):
        operator = IrisSubmitJobOperator(task_id="train", command=["true"])
    assert run_operator(operator).value["state"] == "SUCCEEDED"
    assert lineage.with_parent_run(rungs(), operator, None) == rungs()


def test_where_openlineage_is_not_configured_a_job_is_as_it_was(monkeypatch):
    """The provider alone, without a transport, is disabled."""
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    assert lineage.with_parent_run(rungs(), None, None) == rungs()


def test_lineage_that_fails_costs_no_job(monkeypatch, caplog):
    """The job goes without a parent, and the log says so."""
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:9")
    assert lineage.with_parent_run(rungs(), object(), object()) == rungs()
    assert "no OpenLineage parent" in caplog.text


def rungs():
    job = JobRequest(name="job", entrypoint=Entrypoint.from_binary("true"), resources=ResourceConfig.with_cpu(cpu=1))
    return [rung_job(job, None)]
