"""The DAG whose tasks are killed: long jobs that count aloud, so that a log shows whether somebody still watches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workload import DAG_ID, TASK_ENV

SECRET_NAME, SECRET_CONNECTION = "HF_TOKEN", "hf"
_JOB_SECONDS = 300


@dataclass(frozen=True)
class Victim:
    """One task. `secret`: its job gets one. `late`: it waits until a pool of its name is made."""

    task_id: str
    deferrable: bool
    secret: bool = False
    late: bool = False

    @property
    def key(self) -> str:
        return f"{self.task_id}/-1"


def write_dag(folder: Path, victims: list[Victim], marker: str) -> None:
    folder.mkdir()
    # The length proves that the job has the secret, without a line that shows it.
    script = (
        f'echo token of $(printf %s "${SECRET_NAME}" | wc -c) characters; '
        f"n=0; while [ $n -lt {_JOB_SECONDS} ]; do sleep 1; n=$((n+1)); echo count $n; done"
    )
    rows = [(each.task_id, each.deferrable, each.secret, each.late) for each in victims]
    folder.joinpath("kills_dag.py").write_text(_DAG.format(rows=rows, command=["sh", "-c", script, marker]))


_DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

with DAG("{DAG_ID}", schedule=None, max_active_tasks=100):
    for task_id, deferrable, secret, late in {{rows}}:
        IrisSubmitJobOperator(
            task_id=task_id,
            deferrable=deferrable,
            pool=task_id if late else None,
            secrets={{{{"{SECRET_NAME}": "conn:{SECRET_CONNECTION}"}}}} if secret else None,
            # Workers of Iris deliver no secrets otherwise, and a secret that is not there cannot leak.
            secrets_as_env=secret,
            command={{command}},
            resource_config=ResourceConfig.with_cpu(cpu=1, ram="64m"),
            environment={{{{"env_vars": {{{{"{TASK_ENV}": task_id + "/-1"}}}}}}}},
            poll_interval=2,
            retries=2,
            retry_delay=timedelta(seconds=2),
        )
"""
