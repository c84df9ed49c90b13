"""The benchmarks run, on a small scale: figures of documents must not come from scripts that have rotted."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "benchmarks"


def measure(code):
    """The measurement that a script prints as its last line."""
    path = os.pathsep.join([str(SCRIPTS), str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["shared", "alone"])
def test_waiting_is_measured(kind):
    """More jobs cost more calls where each trigger polls alone."""
    row = measure(f"import watching; watching.INTERVAL = 0.5; watching.INTERVALS = 4; watching.main({kind!r}, 5)")
    assert (row["kind"], row["jobs"]) == (kind, 5)
    assert row["cpu_ms_per_interval"] > 0
    assert (row["calls_per_interval"] >= 5) is (kind == "alone")


def test_the_time_until_an_end_is_known_is_measured():
    """Before the event, which waits for the last lines."""
    code = """
import watching
watching.LATENCY_INTERVAL = 0.5
watching.main("latency", 2)
"""
    row = measure(code)
    assert 0 < row["known_median"] <= row["known_max"]
    assert row["known_median"] < row["event_median"]


def test_building_is_measured():
    code = """
import building
building.OPERATORS, building.TRANSLATIONS, building.SUBMISSIONS, building._ROUNDS = 5, 3, 3, 1
building.main()
"""
    row = measure(code)
    assert row["operators"]["count"] == 5
    assert row["translation"]["ours_ms"] > 0
    assert row["submission"]["calls"] >= 1


def test_each_table_has_its_place_in_the_document():
    """And a row for each measurement."""
    spec = importlib.util.spec_from_file_location("bench", SCRIPTS / "bench.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    cost = dict.fromkeys(("calls_per_interval", "cpu_ms_per_interval", "lag_p99_ms", "lag_max_ms", "memory_mb"), 12.0)
    rows = [{"kind": "shared", "jobs": count, **cost} for count in bench.SHARED]
    rows += [{"kind": "alone", "jobs": count, **cost, "calls_per_interval": 600.0} for count in bench.ALONE]
    rows.append(
        {
            "kind": "latency",
            "jobs": bench.LATENCY_JOBS,
            "interval": 2.0,
            **dict.fromkeys(("known_median", "known_max", "event_median"), 1.0),
        }
    )
    built = {
        "operators": {"count": 9, "seconds": 0.1, "plain_seconds": 0.05},
        "translation": {"count": 9, "ours_ms": 1.0},
        "submission": {"count": 9, "rpc_ms": 1.0, "operator_ms": 2.0, "ratio": 2.0, "calls": 3.0},
    }
    imports = [{"name": "Operator", "ms": 1.0, "mb": 2.0, "modules": 3}]
    tables = bench._tables({"watching": rows, "building": built, "imports": imports})
    document = (ROOT / "docs" / "performance.md").read_text()
    assert all(f"<!-- bench {name} -->" in document for name in tables)
    assert ["1,000", "50 times", "1.0 times"] in tables["ratios"]
    assert len(tables["waiting"]) == 1 + len(bench.SHARED) + len(bench.ALONE)
