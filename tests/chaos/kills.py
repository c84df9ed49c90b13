"""Kills as people and machines do them, in a real Airflow: whose job must end, and whose must go on?

    python tests/chaos/kills.py            # about six minutes on two cores

Options: --keep leaves the folder with all logs, as any failure does; --package DIR tests another copy of the package
than this checkout's; --only NAME (repeatable) plays only scenarios whose name has NAME in it.

A task that is marked or cleared takes its job along, by one TerminateJob, whether a worker or the triggerer watches, or
nobody does yet. A worker that is evicted, a triggerer that restarts or one that stalls leaves the job, and the next one
goes on with it. A secret is nowhere in what Airflow keeps or shows. Exit code 0, or 1 with the evidence. Nothing is
left running either way.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from airflow_parts import Airflow
from kills_dag import SECRET_CONNECTION, Victim, write_dag
from kills_scenarios import (
    DASHBOARD,
    Play,
    cleared,
    evicted,
    marked,
    marked_early,
    marked_unwatched,
    restarted,
    secret_kept,
    stalled,
)
from kills_scene import CountedIrisParts, Scene
from parts import in_sessions, with_argument
from rich.console import Console
from rich.table import Table
from sightings import Sightings

_PARALLELISM = 6
_LOG_LINES = 25
_TOLD_OF_A_TASK = ("state", "try_number", "max_tries", "start_date", "end_date", "trigger")


def main() -> int:
    options = _options()
    # As Ctrl-C, so that the stage is cleared.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    console = Console(width=150)
    folder = Path(tempfile.mkdtemp(prefix="fray-kills-"))
    value = f"hf_{secrets.token_hex(16)}"
    groups = _groups(value, options.only)
    plays = [play for group in groups for play in group]
    scene = _scene(folder, options.package, [play.victim for play in plays], value)
    failed = True
    try:
        _play(scene, groups)
        console.print(_table(plays))
        failed = any(play.fault for play in plays)
        _tell_faults(console, scene, plays)
    finally:
        left = _clear(scene, folder.name)
        if left:
            console.print(f"[red]left behind[/red]: {left}")
        if failed or left or options.keep:
            console.print(f"Logs: {folder}", soft_wrap=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed or left else 0


def _groups(value: str, only: list[str]) -> list[list[Play]]:
    """The plays of a group go at once, group after group: a triggerer that restarts would be felt by all."""
    plays = [Play("deferred, secret", Victim("deferred_secret", True, secret=True), secret_kept(value))]
    for mode in ("deferred", "sync"):
        for name, act in (("failed", marked("failed")), ("success", marked("success")), ("cleared", cleared)):
            plays.append(Play(f"{mode}, {name}", Victim(f"{mode}_{name}", mode == "deferred"), act))
    plays.append(Play("sync, evicted", Victim("sync_evicted", False), evicted))
    groups = [
        plays,
        [Play("deferred, triggerer restarted", Victim("deferred_restarted", True), restarted)],
        [Play("deferred, failed early", Victim("deferred_early", True), marked_early)],
        [
            Play(f"unwatched, {state}", Victim(f"unwatched_{state}", True, late=True), marked_unwatched(state))
            for state in ("failed", "success")
        ],
        # After it there are two triggerers.
        [Play("deferred, triggerer stalled", Victim("deferred_stalled", True), stalled)],
    ]
    chosen = [[play for play in group if _is_chosen(play, only)] for group in groups]
    return [group for group in chosen if group]


def _is_chosen(play: Play, only: list[str]) -> bool:
    return not only or any(name in play.name for name in only)


def _scene(folder: Path, package: Path, victims: list[Victim], value: str) -> Scene:
    shutil.copytree(package, folder / "code" / "fray_airflow", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "iris").mkdir()
    (folder / "airflow").mkdir()
    iris = CountedIrisParts(folder / "iris")
    connection = {"host": "grpc://127.0.0.1", "port": iris.port, "extra": {"dashboard_url": DASHBOARD}}
    others = {SECRET_CONNECTION: {"conn_type": "generic", "password": value}}
    airflow = Airflow(folder / "airflow", connection, _PARALLELISM, others)
    write_dag(folder / "airflow" / "dags", victims, folder.name)
    return Scene(airflow, iris, Sightings(f"grpc://127.0.0.1:{iris.port}"))


def _play(scene: Scene, groups: list[list[Play]]) -> None:
    with ThreadPoolExecutor(max(map(len, groups)) + 1) as pool:
        starting = pool.submit(scene.iris.start)
        scene.airflow.start()
        starting.result()
        scene.seen.start()
        scene.airflow.start_run()
        for group in groups:
            list(pool.map(lambda play: play.run(scene), group))


def _clear(scene: Scene, marker: str) -> list[str]:
    """Stops all; returns what still lives."""
    scene.airflow.stop()
    if scene.seen.samples:
        scene.seen.stop()
    scene.iris.stop()
    sessions = [each for part in [*scene.airflow.parts.values(), *scene.iris.parts.values()] for each in part.sessions]
    left = [*in_sessions(sessions), *with_argument(marker)]
    return [f"{process.pid} {process.name()}" for process in left]


def _table(plays: list[Play]) -> Table:
    table = Table("scenario", "what was seen", "seconds", "", title="Kills", show_lines=True)
    for play in plays:
        verdict = "[red]FAIL[/red]" if play.fault else "[green]pass[/green]"
        seen = "; ".join(play.steps).replace("[", r"\[")
        table.add_row(play.name, seen, f"{play.seconds:.0f}", verdict)
    return table


def _tell_faults(console: Console, scene: Scene, plays: list[Play]) -> None:
    for play in plays:
        if play.fault:
            jobs = [str(job) for job in scene.jobs(play.victim)]
            task = {name: scene.row(play.victim).get(name) for name in _TOLD_OF_A_TASK}
            evidence = [f"{play.name}: {play.fault}", f"  jobs {jobs}", f"  task {task}"]
            evidence += [f"  {line}" for line in scene.log(play.victim) if "] count " not in line][-_LOG_LINES:]
            console.print("\n".join(evidence), highlight=False, markup=False, soft_wrap=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, default=Path(__file__).resolve().parents[2] / "fray_airflow")
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--keep", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
