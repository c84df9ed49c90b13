"""How many of a job's lines the real Iris keeps, by how fast the job prints them.

    python benchmarks/log_loss.py                       # needs the dependency group iris; 3 minutes
    python benchmarks/log_loss.py --rates 1000 3000 --seconds 30

A controller and one worker that ships its lines every 5 s, as Iris's workers do by default. One job after the other
prints numbered lines at an even rate; what Iris holds of them is counted at the end. The last column tells whether the
task's log would have the hint of `fray_airflow/lifecycle/log_rate.py`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path.append(str(_HERE.parent / "tests" / "chaos"))

from iris_parts import RealIrisParts
from parts import Part, plain_environment
from rich.console import Console
from rich.table import Table

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import IrisClient
from fray_airflow.lifecycle.log_rate import LogRate
from fray_airflow.logs import LogCursor

_POLL_SECONDS = 5
_SETTLE_SECONDS = 12
"""Twice the worker's interval, and what the log service takes."""

# Ten times a second, so that a slow machine does not make the rate uneven. The real duration is printed last.
_PROGRAM = """
import sys, time
rate, seconds = int(sys.argv[1]), int(sys.argv[2])
started = time.monotonic()
for tenth in range(10 * seconds):
    sys.stdout.write("".join(f"line {number} of a usual length, loss 2.3041\\n" for number in range(rate // 10)))
    sys.stdout.flush()
    time.sleep(max(0, started + (tenth + 1) / 10 - time.monotonic()))
print(f"took {time.monotonic() - started}")
"""


def main() -> int:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="fray-log-loss-"))
    iris = RealIrisParts(folder)
    environment = plain_environment(folder)
    worker = [sys.executable, str(_HERE.parent / "tests/chaos/real_worker.py"), iris.url, "0", str(folder)]
    controller = iris.parts["controller"]
    iris.parts = {
        "controller": controller,
        "worker": Part("worker", [*worker, str(_POLL_SECONDS)], environment, folder),
    }
    table = Table("lines per second", "printed", "kept", "lost", "hint", title="One replica", title_justify="left")
    for column in table.columns:
        column.justify = "right"
    try:
        iris.start()
        with IrisClient(iris.url) as client:
            for rate in options.rates:
                table.add_row(*_measure(client, rate, options.seconds))
    finally:
        iris.stop()
        shutil.rmtree(folder, ignore_errors=True)
    Console(width=100).print(table)
    return 0


def _measure(client: IrisClient, rate: int, seconds: int) -> tuple[str, ...]:
    job = client.submit(
        JobRequest(
            name=f"printer-{rate}",
            entrypoint=Entrypoint.from_binary("python", ["-c", _PROGRAM, str(rate), str(seconds)]),
            resources=ResourceConfig.with_cpu(cpu=1, ram="256m"),
        )
    )
    job.wait()
    time.sleep(_SETTLE_SECONDS)
    kept, took, hint, cursor, meter = 0, float(seconds), "", LogCursor(job.job_id), LogRate()
    while (page := client.logs(job.job_id, cursor)).lines:
        kept += sum(line.text.startswith("line ") for line in page.lines)
        took = next((float(line.text.split()[1]) for line in page.lines if line.text.startswith("took ")), took)
        hint, cursor = hint or meter.hint(page), page.cursor
    printed = 10 * seconds * (rate // 10)
    return f"{printed / took:,.0f}", f"{printed:,}", f"{kept:,}", f"{1 - kept / printed:.0%}", "yes" if hint else "no"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", type=int, nargs="+", default=[500, 1000, 1500, 2500, 4000])
    parser.add_argument("--seconds", type=int, default=20, help="how long each job prints")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
