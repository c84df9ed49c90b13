"""What parsing a DAG costs: Airflow does it every few seconds, and again whenever a task starts or resumes."""

import json
import subprocess
import sys

PARSE = """
import json, sys
import airflow.sdk, airflow.triggers.base
from airflow.sdk import DAG, BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator, conf, task
before = set(sys.modules)
import fray_airflow, fray_airflow.operators, fray_airflow.sensors, fray_airflow.decorators
@task.iris(resource_config={"cpu": 1})
def train(): ...
with DAG("parsed", schedule=None): train()
print(json.dumps(sorted(set(sys.modules) - before)))
"""
HEAVY = ("cloudpickle", "google.protobuf", "grpc", "httpx", "pandas")


def test_parsing_a_dag_loads_no_rpc_or_pickling_library() -> None:
    """What `airflow.sdk` has loaded by itself does not count."""
    parsed = subprocess.run([sys.executable, "-c", PARSE], capture_output=True, text=True, check=False)
    assert parsed.returncode == 0, parsed.stderr
    added = json.loads(parsed.stdout.splitlines()[-1])
    assert {"fray_airflow.operators", "fray_airflow.decorators.iris"} <= set(added)
    assert [name for name in added if any(f"{name}.".startswith(f"{heavy}.") for heavy in HEAVY)] == []


def test_parsing_an_operator_loads_neither_the_lifecycle_nor_a_trigger() -> None:
    """They are most of what there is to load, and only a running task needs them."""
    code = (
        "import sys, fray_airflow.operators; print([name for name in sys.modules if name.startswith('fray_airflow.')])"
    )
    parsed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fray_airflow.operators.submit_job" in parsed.stdout
    for package in ("lifecycle", "triggers", "iris", "local"):
        assert f"fray_airflow.{package}" not in parsed.stdout
