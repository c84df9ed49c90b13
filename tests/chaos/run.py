"""Chaos: a real Airflow and an Iris, of which parts are killed at random while jobs run; then both are compared.

    python tests/chaos/run.py --faults 5 --tasks 10 --iris local     # short, for CI: under four minutes on two cores
    python tests/chaos/run.py --faults 40 --tasks 40 --iris real     # long, by hand; needs the dependency group iris

Options: --seed N repeats the choice of faults, pauses and durations (not the scheduling of the machine); --minutes N
bounds the run; --parallelism N tasks at once; --keep leaves the folder with all logs, as any violation does;
--kind K (repeatable) strikes only that kind; --package DIR tests another copy of the package than this checkout's.

Faults: kill -9 of a task runner, of its supervisor, of a runner at the moment its launch has reached Iris, of the
triggerer and of the scheduler (alone, or with all their children), of the API server, of the real controller; and a
proxy in front of Iris that cuts replies in the middle, delays, or refuses for 5 to 15 s.

Verdict, from Iris's job list and Airflow's REST API: each task instance ended as its last job did and returned that
job's result; it never had two live jobs; every further job follows one that failed; no job is left running, killed
unasked, lost, or anybody else's. Exit code 0, or 1 with the evidence. Nothing is left running either way.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from iris_parts import LocalIrisParts, RealIrisParts
from rich.console import Console
from stage import Stage, Timeline
from workload import make_work


def main() -> int:
    options = _options()
    # As Ctrl-C, so that the stage is cleared.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    console = Console(width=120)
    console.print(f"seed {options.seed}: {options.faults} faults, {options.tasks} tasks, {options.iris} Iris")
    folder = Path(tempfile.mkdtemp(prefix="fray-chaos-"))
    chance = random.Random(options.seed)
    kind = {"local": LocalIrisParts, "real": RealIrisParts}[options.iris]
    stage = Stage(folder, options.package, kind, make_work(options.tasks, chance), chance, options.parallelism)
    timeline = Timeline(console, time.time(), deadline=time.time() + 60 * options.minutes)
    clean = False
    try:
        violations = stage.play(options.faults, options.kind, timeline)
        clean = not violations
    finally:
        left = stage.clear()
        if left:
            console.print(f"[red]left behind[/red]: {left}")
        if clean and not left and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            console.print(f"Logs: {folder}", soft_wrap=True)
    timeline.say("no violation" if clean and not left else "VIOLATED")
    return 0 if clean and not left else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--iris", choices=["local", "real"], default="local")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    parser.add_argument("--minutes", type=float, default=0, help="0: 4, and half a minute per fault above 5")
    parser.add_argument("--parallelism", type=int, default=4)
    parser.add_argument("--package", type=Path, default=Path(__file__).resolve().parents[2] / "fray_airflow")
    parser.add_argument("--kind", action="append", default=[], help="of fault, as the table names it; repeatable")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.minutes = options.minutes or 4 + 0.5 * max(0, options.faults - 5)
    return options


if __name__ == "__main__":
    sys.exit(main())
