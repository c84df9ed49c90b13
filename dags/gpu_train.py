"""A Python function on a GPU host: its code travels with the job, and the host count comes from a parameter."""

from airflow.sdk import DAG

from fray_airflow import Entrypoint
from fray_airflow.operators import IrisSubmitJobOperator


def train(steps: int) -> None:
    loss = 4.0
    for step in range(1, steps + 1):
        loss *= 0.8
        print(f"step {step} loss {loss:.3f}")
    print(f'FRAY_AIRFLOW_RESULT {{"loss": {loss:.3f}}}')


with DAG("gpu_train", schedule=None, params={"gpus": 8}, tags=["iris"]):
    IrisSubmitJobOperator(
        task_id="train",
        resource_config={"gpu": "H100", "gpu_count": "{{ params.gpus }}", "ram": "64g"},
        entrypoint=Entrypoint.from_callable(train, args=[5]),
        max_retries_failure=1,
    )
