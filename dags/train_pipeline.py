"""Tokenise on a CPU host, train on a gang of two TPU hosts, evaluate on a GPU host, publish."""

from airflow.sdk import DAG, task

from fray_airflow import ResourceConfig, create_environment
from fray_airflow.operators import IrisSubmitJobOperator

# The folder beside this file is shipped with each job. STORE stands for a bucket.
code = create_environment(
    workspace="ngram", setup_scripts=[], env_vars={"STORE": "{{ params.store }}/{{ run_id }}", "PYTHONUNBUFFERED": "1"}
)


@task
def publish(train: dict, evaluate: dict) -> dict:
    return {"model": train["result"], **evaluate["result"], "chip_seconds": train["chip_seconds"]}


store = {"store": "/var/tmp/fray_airflow_store"}
with DAG("train_pipeline", schedule=None, params=store, default_args={"environment": code}, tags=["iris"]):
    tokenise = IrisSubmitJobOperator(
        task_id="tokenise",
        resource_config=ResourceConfig.with_cpu(cpu=2, ram="1g"),
        command=["python", "/app/ngram.py", "tokenise"],
    )
    train = IrisSubmitJobOperator(
        task_id="train",
        resource_config=ResourceConfig.with_tpu("v5p-16"),
        command=["python", "/app/ngram.py", "train"],
        deferrable=True,
    )
    evaluate = IrisSubmitJobOperator(
        task_id="evaluate",
        resource_config=ResourceConfig.with_gpu("H100", count=8, cpu=16, ram="64g"),
        command=["python", "/app/ngram.py", "evaluate"],
    )
    tokenise >> train >> evaluate >> publish(train.output, evaluate.output)
