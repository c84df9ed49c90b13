"""Two TPU slices of one host each, as one job: a replica finds its slice's number from its own."""

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

with DAG("tpu_multislice", schedule=None, tags=["iris"]):
    IrisSubmitJobOperator(
        task_id="train",
        resource_config=ResourceConfig.with_tpu("v5p-8", slice_count=2),
        command=["bash", "-c", 'echo "task $IRIS_TASK_ID of $IRIS_NUM_TASKS, $IRIS_SLICE_COUNT slices"'],
        deferrable=True,
    )
