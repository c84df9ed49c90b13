"""What one import adds to a process that has Airflow's SDK: run by `bench.py`, each time in a process of its own.

    python benchmarks/imports.py fray_airflow.operators IrisSubmitJobOperator

Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

home = Path(tempfile.mkdtemp(prefix="fray-airflow-bench-"))
os.environ.update(AIRFLOW_HOME=str(home), AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{home / 'airflow.db'}")

# What every DAG file has loaded, and every operator that defers.


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def main(module: str, name: str) -> int:
    # Lazy attributes of the SDK, which any operator resolves.
    from airflow.sdk import DAG, BaseHook, BaseOperator, BaseOperatorLink, BaseSensorOperator, conf, task  # noqa: F401

    modules, memory, started = len(sys.modules), resident_mb(), time.process_time()
    getattr(import_module(module), name)
    seconds = time.process_time() - started
    added = {"ms": seconds * 1000, "mb": resident_mb() - memory, "modules": len(sys.modules) - modules}
    print(json.dumps({"name": name, **added}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
