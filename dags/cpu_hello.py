"""The smallest job: one command on one CPU host, with a result."""

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

with DAG("cpu_hello", schedule=None, tags=["iris"]):
    IrisSubmitJobOperator(
        task_id="hello",
        resource_config=ResourceConfig.with_cpu(cpu=1, ram="512m"),
        command=["bash", "-c", """echo "hello from $IRIS_TASK_ID"; echo 'FRAY_AIRFLOW_RESULT {"greeted": true}'"""],
    )
