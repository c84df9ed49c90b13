"""Start training only when two slices are free at once, so that the pair does not wait half placed."""

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.sensors import IrisCapacitySensor, IrisJobSensor

PAIR = ResourceConfig.with_tpu("v5p-8", slice_count=2)

with DAG("capacity_gate", schedule=None, tags=["iris"]):
    free = IrisCapacitySensor(task_id="free", resource_config=PAIR, poke_interval=1, timeout=600)
    train = IrisSubmitJobOperator(
        task_id="train", resource_config=PAIR, command=["sleep", "2"], wait_for_completion=False
    )
    trained = IrisJobSensor(task_id="trained", job_id=train.output["job_id"], poke_interval=1, timeout=600)
    free >> train >> trained
