"""What the Iris page of the tests shows: jobs that run, wait, fail and succeed, a thousand replicas, no job at all."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

with DAG("training", schedule=None):
    IrisSubmitJobOperator(
        task_id="tokenise", resource_config=ResourceConfig.with_cpu(cpu=1, ram="1g"), command=["tokenise"]
    )
    IrisSubmitJobOperator(
        task_id="train", resource_config=ResourceConfig.with_tpu("v5p-16"), command=["train"], deferrable=True
    )
    IrisSubmitJobOperator(
        task_id="sweep", resource_config=ResourceConfig.with_tpu("v5p-8"), command=["sweep"], deferrable=True
    )
    IrisSubmitJobOperator(
        task_id="evaluate", resource_config=ResourceConfig.with_gpu("H100", count=8), command=["evaluate"]
    )
    IrisSubmitJobOperator(
        task_id="pretrain",
        resource_config=ResourceConfig.with_tpu("v5p-8192"),
        command=["pretrain"],
        deferrable=True,
    )
    EmptyOperator(task_id="publish")

with DAG("secret", schedule=None):
    IrisSubmitJobOperator(task_id="hidden", resource_config=ResourceConfig.with_cpu(cpu=1), command=["hidden"])
