"""All measurements of docs/performance.md, which is written from them.

    make bench                                   # about ten minutes
    python benchmarks/bench.py --redraw          # the document and the plot, from the last results

Everything that is compared is measured in one run on one machine. The ratios are what lasts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_REPO = _HERE.parent
_RESULTS = _HERE / "results"
_DOCUMENT = _REPO / "docs" / "performance.md"
_PLOT = _REPO / "docs" / "images" / "waiting-jobs.png"
_OTHER_PYTHON = _REPO / ".tools" / "bench" / "bin" / "python"
"""Has the other providers and what draws; see `bench` in pyproject.toml."""

SHARED = (10, 100, 1000, 5000)
ALONE = (10, 100, 1000)
"""Five thousand of these would take more than one processor."""

LATENCY_JOBS = 100
_IMPORTS = (
    ("fray_airflow.operators", "IrisSubmitJobOperator"),
    ("airflow.providers.cncf.kubernetes.operators.pod", "KubernetesPodOperator"),
    ("airflow.providers.databricks.operators.databricks", "DatabricksSubmitRunOperator"),
)
_IMPORT_ROUNDS = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"what to measure anew, all by default: {', '.join(_PARTS)}")
    parser.add_argument("--redraw", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if unknown := set(options.parts) - _PARTS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(_PARTS)}")
    _RESULTS.mkdir(exist_ok=True)
    for part in [] if options.redraw else options.parts or _PARTS:
        (_RESULTS / f"{part}.json").write_text(json.dumps(_PARTS[part](), indent=1) + "\n")
    results = {part: json.loads((_RESULTS / f"{part}.json").read_text()) for part in _PARTS}
    for name, rows in _tables(results).items():
        _write(name, rows)
    subprocess.run([_OTHER_PYTHON, str(_HERE / "plot.py"), str(_RESULTS / "watching.json"), str(_PLOT)], check=True)
    print(f"Written: {_DOCUMENT.relative_to(_REPO)}, {_PLOT.relative_to(_REPO)}")
    return 0


def _watching() -> list[dict[str, Any]]:
    runs = [("shared", count) for count in SHARED] + [("alone", count) for count in ALONE]
    return [_run(sys.executable, "watching.py", *run) for run in [*runs, ("latency", LATENCY_JOBS)]]


def _building() -> dict[str, Any]:
    return _run(sys.executable, "building.py")


def _imports() -> list[dict[str, Any]]:
    """The median of each, in turns, of what the process itself worked."""
    rounds = [[_run(_OTHER_PYTHON, "imports.py", *each) for each in _IMPORTS] for _ in range(_IMPORT_ROUNDS + 1)]
    # The first round compiles.
    columns = zip(*rounds[1:], strict=True)
    return [
        {
            "name": each[0]["name"],
            **{key: statistics.median(one[key] for one in each) for key in ("ms", "mb", "modules")},
        }
        for each in columns
    ]


def _run(python: str | Path, script: str, *arguments: object) -> Any:
    print(script, *arguments, flush=True)
    argv = [str(python), str(_HERE / script), *map(str, arguments)]
    # As on a worker: byte code is written by the first round, and found by the others.
    env = {**os.environ, "PYTHONPATH": str(_REPO), "PYTHONPYCACHEPREFIX": str(_OTHER_PYTHON.parents[1] / "pycache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def _tables(results: dict[str, Any]) -> dict[str, list[list[str]]]:
    """Rows of each table of the document, its head first."""
    cost = {(row["kind"], row["jobs"]): row for row in results["watching"]}
    latency = cost["latency", LATENCY_JOBS]
    built, translated, submitted = (results["building"][key] for key in ("operators", "translation", "submission"))
    waiting = [["waiting jobs", "", "calls per interval", "CPU ms per interval", "loop late, p99 ms", "max ms", "MB"]]
    for kind, name in (("shared", "one poller"), ("alone", "one poll per trigger")):
        for count in SHARED if kind == "shared" else ALONE:
            row = cost[kind, count]
            waiting.append(
                [
                    f"{count:,}",
                    name,
                    f"{row['calls_per_interval']:,.1f}",
                    f"{row['cpu_ms_per_interval']:,.0f}",
                    f"{row['lag_p99_ms']:.0f}",
                    f"{row['lag_max_ms']:.0f}",
                    f"{row['memory_mb']:.0f}",
                ]
            )
    ratios = [["jobs", "calls", "CPU"]]
    for count in ALONE:
        one, many = cost["shared", count], cost["alone", count]
        ratios.append(
            [f"{count:,}", *(_times(many[key] / one[key]) for key in ("calls_per_interval", "cpu_ms_per_interval"))]
        )
    ends = [["from the end of a job", "seconds", "intervals"]]
    for key, name in (
        ("known_median", "known, median"),
        ("known_max", "known, latest"),
        ("event_median", "event, median"),
    ):
        ends.append([name, f"{latency[key]:.2f}", f"{latency[key] / latency['interval']:.2f}"])
    imports = [["import", "CPU ms", "MB", "modules"]]
    imports += [
        [f"`{row['name']}`", f"{row['ms']:.0f}", f"{row['mb']:.1f}", f"{row['modules']:.0f}"]
        for row in results["imports"]
    ]
    building = [["what", "measured", "beside it"]]
    building.append(
        [
            f"{built['count']:,} operators with specs built",
            f"{built['seconds']:.2f} s",
            f"{built['plain_seconds']:.2f} s for Airflow's own BaseOperator",
        ]
    )
    if "theirs_ms" in translated:
        theirs = (
            f"{translated['theirs_ms']:.3f} ms by marin-fray and marin-iris, {_times(1 / translated['ratio'])} as much"
        )
    else:
        theirs = "marin-fray is not installed"
    building.append(["a job request made into the message that is sent", f"{translated['ours_ms']:.3f} ms", theirs])
    building.append(
        [
            f"a submission by the operator, of {submitted['count']}",
            f"{submitted['operator_ms']:.1f} ms in {submitted['calls']:.0f} calls",
            f"{submitted['rpc_ms']:.1f} ms for one bare call",
        ]
    )
    return {"waiting": waiting, "ratios": ratios, "ends": ends, "imports": imports, "building": building}


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times"


def _write(name: str, rows: Sequence[Sequence[str]]) -> None:
    """Between the marks that the document has for this table."""
    head, *body = rows
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]
    start, end = f"<!-- bench {name} -->\n", "<!-- bench end -->"
    text = _DOCUMENT.read_text()
    before, mark, rest = text.partition(start)
    if not mark or end not in rest:
        raise SystemExit(f"{_DOCUMENT} has no place for {name}: it needs {start.strip()} and {end}")
    _DOCUMENT.write_text(before + mark + "\n".join(lines) + "\n" + end + rest.partition(end)[2])


_PARTS: dict[str, Callable[[], Any]] = {"imports": _imports, "building": _building, "watching": _watching}


if __name__ == "__main__":
    sys.exit(main())
