"""What the tasks of a run do, and the DAG file that makes them."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path

DAG_ID = RUN_ID = "chaos"
RETRIES = 5
SPARE_RETRIES = 25
"""For tasks that are to succeed: while the API server is away, Airflow itself uses up a try every few seconds."""
FAILS_WITH = 3
TASK_ENV = "CHAOS_TASK"
"""Set by the DAG's author, echoed by Iris: tells a job's task instance without asking the operator."""


@dataclass(frozen=True)
class Work:
    """One task instance and its job. `number` comes back as the result of a job that ends well."""

    task_id: str
    map_index: int
    deferrable: bool
    seconds: int
    exit_code: int
    number: int

    @property
    def key(self) -> str:
        return f"{self.task_id}/{self.map_index}"

    def command(self, marker: str) -> list[str]:
        script = (
            f"""sleep {self.seconds}; echo 'FRAY_AIRFLOW_RESULT {{"number": {self.number}}}'; exit {self.exit_code}"""
        )
        return ["sh", "-c", script, marker]


# (name, deferrable, seconds, exit code, mapped). Ten make the short run; a longer one repeats them.
_KINDS = (
    ("sync_short", False, (2, 2), 0, False),
    ("sync_long", False, (20, 40), 0, False),
    ("deferrable_long", True, (20, 40), 0, False),
    ("mapped_sync", False, (2, 20), 0, True),
    ("mapped_deferrable", True, (15, 30), 0, True),
    ("fails_sync", False, (2, 2), FAILS_WITH, False),
    ("deferrable_short", True, (2, 2), 0, False),
    ("mapped_sync", False, (2, 20), 0, True),
    ("mapped_deferrable", True, (15, 30), 0, True),
    ("deferrable_middle", True, (12, 20), 0, False),
)
_FAILS_DEFERRABLE = ("fails_deferrable", True, (12, 14), FAILS_WITH, False)


def make_work(count: int, chance: random.Random) -> list[Work]:
    work, mapped = [], {}
    for number in range(count):
        turn, row = divmod(number, len(_KINDS))
        kind = _KINDS[row]
        if kind[3] and turn % 2:
            kind = _FAILS_DEFERRABLE
        name, deferrable, seconds, exit_code, is_mapped = kind
        index = mapped.setdefault(name, 0) if is_mapped else -1
        mapped[name] = index + 1
        task_id = name if is_mapped else f"{name}_{turn}"
        work.append(Work(task_id, index, deferrable, chance.randint(*seconds), exit_code, number))
    return work


def write_dag(folder: Path, work: list[Work], marker: str) -> None:
    folder.mkdir()
    rows = [
        {**asdict(each), "command": each.command(marker), "retries": RETRIES if each.exit_code else SPARE_RETRIES}
        for each in work
    ]
    folder.joinpath("work.json").write_text(json.dumps(rows))
    folder.joinpath("chaos_dag.py").write_text(_DAG)


_DAG = f'''
import json
from datetime import timedelta
from itertools import groupby
from pathlib import Path

from airflow.sdk import DAG

from fray_airflow import ResourceConfig
from fray_airflow.operators import IrisSubmitJobOperator

ROWS = sorted(json.loads(Path(__file__).with_name("work.json").read_text()), key=lambda row: row["task_id"])
COMMON = dict(
    resource_config=ResourceConfig.with_cpu(cpu=1, ram="64m"),
    environment={{"env_vars": {{"{TASK_ENV}": "{{{{ ti.task_id }}}}/{{{{ ti.map_index }}}}"}}}},
    poll_interval=2,
    retry_delay=timedelta(seconds=2),
)

with DAG("{DAG_ID}", schedule=None, max_active_tasks=100):
    for task_id, rows in groupby(ROWS, key=lambda row: row["task_id"]):
        rows = sorted(rows, key=lambda row: row["map_index"])
        common = dict(task_id=task_id, deferrable=rows[0]["deferrable"], retries=rows[0]["retries"], **COMMON)
        if rows[0]["map_index"] < 0:
            IrisSubmitJobOperator(command=rows[0]["command"], **common)
        else:
            IrisSubmitJobOperator.partial(**common).expand(command=[row["command"] for row in rows])
'''
