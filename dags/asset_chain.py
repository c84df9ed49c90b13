"""A DAG that trains tells of its model with an asset; a second DAG runs because of it and reads what the event says."""

from airflow.sdk import DAG, Asset, task

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

MODEL = Asset("iris_example_model")

TRAIN = """
cd "$IRIS_WORKDIR"
echo '{"loss": 0.25, "model": "runs/{{ run_id }}"}' > metrics.json
python3 _fray/push_result.py metrics.json
"""

with DAG("asset_train", schedule=None, tags=["iris"]):
    IrisSubmitJobOperator(
        task_id="train",
        resource_config=ResourceConfig.with_cpu(cpu=1, ram="512m"),
        command=["bash", "-ec", TRAIN],
        result="file",
        outlets=[MODEL],
    )


@task
def publish(triggering_asset_events=None) -> list:
    told = [event.extra for event in triggering_asset_events[MODEL]]
    for each in told:
        print(f"{each['job_id']} made {each['result']['model']} in {each['run_seconds']} s")
    return told


with DAG("asset_publish", schedule=[MODEL], tags=["iris"]):
    publish()
