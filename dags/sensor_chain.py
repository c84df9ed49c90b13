"""Launch without waiting, continue when the gang has all its machines, then see where it runs."""

from airflow.sdk import DAG, task

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.sensors import IrisPlacementSensor


@task
def announce(placement: list) -> list:
    slices = sorted({row["slice"] for row in placement})
    print(f"{len(placement)} replicas run on {', '.join(slices)}")
    return slices


with DAG("sensor_chain", schedule=None, tags=["iris"]):
    launch = IrisSubmitJobOperator(
        task_id="launch",
        resource_config=ResourceConfig.with_tpu("v5p-16"),
        command=["sleep", "5"],
        wait_for_completion=False,
    )
    placed = IrisPlacementSensor(
        task_id="placed", job_id="{{ ti.xcom_pull('launch', key='job_id') }}", poke_interval=1, timeout=600
    )
    launch >> placed >> announce(placed.output)
