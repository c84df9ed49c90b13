"""A DAG run with OpenLineage's provider at work, in a process of its own: it decides when Airflow is imported.

The environment says where Iris is, and where events go. How each task ended goes to the file that is the argument.
"""

import json
import sys
from pathlib import Path

from airflow.providers.openlineage.api.emission_policy import extend_global_openlineage_emission_policy
from airflow.sdk import DAG, Asset, task

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing.airflow import prepare_database, run_dag


class Submit(IrisSubmitJobOperator):
    """Defers at once."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(task_id, script, **arguments):
    command = ["bash", "-c", script]
    return Submit(**{"task_id": task_id, "resource_config": {"cpu": 1}, "command": command, **arguments})


def variables():
    import os

    return {name: value for name, value in os.environ.items() if name.startswith("OPENLINEAGE_")}


def read_by_dbt_ol():
    """What a client makes of the variables: one that knows OPENLINEAGE_CONTEXT, and one that does not."""
    import os

    from openlineage.common.provider.dbt.utils import get_parent_run_metadata

    newest = get_parent_run_metadata()
    del os.environ["OPENLINEAGE_CONTEXT"]
    names = [f"{kind}{name}" for kind in ("", "root_parent_") for name in ("job_namespace", "job_name", "run_id")]
    return [{name: getattr(read, name) for name in names} for read in (newest, get_parent_run_metadata())]


def function(python_callable, **arguments):
    return task.iris(resource_config={"cpu": 1}, **arguments)(python_callable)()


with DAG("lineage", schedule=None) as dag:
    submit("waited", "true", resource_config=ResourceConfig.with_tpu("v5p-16"), outlets=[Asset("file:///models/one")])
    submit("deferred", "sleep 1", resource_config={"gpu": "H100"}, deferrable=True)
    submit("failed", "exit 3")
    submit("failed_deferred", "sleep 1; exit 4", deferrable=True)
    submit("unreachable", "true", iris_conn_id="iris_nowhere")
    function(variables, task_id="told")
    function(read_by_dbt_ol, task_id="dbt_ol")
    function(variables, task_id="own", environment={"env_vars": {"OPENLINEAGE_PARENT_ID": "mine/job/1"}})
    function(variables, task_id="off", environment={"env_vars": {"OPENLINEAGE_PARENT_ID": ""}})
    extend_global_openlineage_emission_policy(function(variables, task_id="quiet"), emit=False)

if __name__ == "__main__":
    prepare_database()
    runs = run_dag(dag)
    Path(sys.argv[1]).write_text(json.dumps({name: [run.state, run.value] for (name, _), run in runs.items()}))
