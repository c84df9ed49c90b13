"""Runs the demo against a real Iris of its own: the same DAG, another connection."""

from __future__ import annotations

import subprocess
import sys

from real_iris import run_real_iris


def main() -> int:
    with run_real_iris("connect") as iris:
        return subprocess.run(
            [sys.executable, "-m", "fray_airflow.demo", "--iris", iris.target], check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
