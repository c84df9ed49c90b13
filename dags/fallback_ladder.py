"""Two v5p-16 slices if they come within half an hour, else one v5p-8 slice with a batch that fits it."""

from datetime import timedelta

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator, per_rung

with DAG("fallback_ladder", schedule=None, catchup=False, tags=["fray", "tpu"]):
    IrisSubmitJobOperator(
        task_id="train",
        resource_config=ResourceConfig.with_tpu("v5p-16", slice_count=2),
        slice_strategy="job_per_slice",
        fallback_resource_configs=[ResourceConfig.with_tpu("v5p-8")],
        placement_timeout=timedelta(minutes=30),
        command=[
            "echo",
            "training with",
            per_rung("--batch={{ 16 * rung.chips }}"),
            per_rung(lambda rung: rung.device),
        ],
        deferrable=True,
    )
