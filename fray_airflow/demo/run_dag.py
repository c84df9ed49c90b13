"""`python -m fray_airflow.demo.run_dag FILE RESULTS`: runs a DAG in real Airflow and writes how its tasks ended."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from fray_airflow.testing.airflow import load_dags, prepare_database, run_dag


def main(dag_file: Path, results: Path) -> int:
    prepare_database()
    (dag,) = load_dags(dag_file).values()
    runs = run_dag(dag)
    results.write_text(json.dumps([asdict(run) for run in runs.values()]))
    return 0 if all(run.state == "success" for run in runs.values()) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
