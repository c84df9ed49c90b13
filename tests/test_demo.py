"""The demo as a person starts it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_shows_the_pipeline_from_request_to_perplexity():
    """Requests, placement by slice, states, lines, and a table with a perplexity; no process is left behind."""
    shown = subprocess.run(
        [sys.executable, "-m", "fray_airflow.demo"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "2 x [TPU v5p-16 with 4 chips, 104 cores, 224 GiB], together by tpu-name" in shown.stdout
    assert "replica 1 -> " in shown.stdout
    assert "SUCCEEDED (2 succeeded)" in shown.stdout
    assert "[replica 0] round 8: perplexity on held-out text" in shown.stdout
    table = shown.stdout.partition("Results")[2]
    assert all(task in table for task in ("tokenise", "train", "evaluate", "publish"))
    assert "│ success │" in table
