"""A notifier that says which job failed, where it ran, and which replica began it; here into a file."""

import json
from pathlib import Path

from airflow.sdk import DAG, BaseNotifier

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator


class ToFile(BaseNotifier):
    template_fields = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def notify(self, context) -> None:
        ti, error = context["ti"], context["exception"]
        # None when the task failed before it had a job.
        facts = ti.xcom_pull(task_ids=ti.task_id, key="iris_job", map_indexes=ti.map_index) or {}
        text = {
            "task": ti.task_id,
            "error": f"{type(error).__name__}: {error}",
            "link": ti.task.job_url,
            **{name: facts.get(name) for name in ("job_id", "state", "machines", "failed_replica", "exit_code")},
        }
        Path(self.path).write_text(json.dumps(text))


with DAG("notify", schedule=None, params={"told": "/tmp/iris-notify.json"}, tags=["iris"]):
    IrisSubmitJobOperator(
        task_id="train",
        resource_config=ResourceConfig.with_cpu(cpu=1, ram="512m"),
        command=["bash", "-c", "echo out of data >&2; exit 3"],
        on_failure_callback=ToFile("{{ params.told }}"),
    )
