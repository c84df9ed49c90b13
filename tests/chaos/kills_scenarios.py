"""The scenarios. Each is played on a task of its own, and says what was seen; the first that is not so ends it."""

from __future__ import annotations

import base64
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import psutil
from kills_dag import Victim
from kills_scene import Scene
from parts import until
from sightings import Job

from fray_airflow.iris import IrisClient, JobState
from fray_airflow.triggers.bookmark import BOOKMARK_KEY

DASHBOARD = "http://iris.example.com/ui"
KILL_SECONDS = 45
"""A trigger that is killed while it starts may not hear of it: then the API server's last look ends the job."""

_START_SECONDS = 120
_NEXT_SECONDS = 75
_SETTLE_SECONDS = 8
_DRAIN_SECONDS = 3
_WATCHED_SECONDS = 2


class Unexpected(Exception):
    """What was seen instead."""


@dataclass
class Play:
    """One row of the table. `steps` are what was seen, with the seconds it took."""

    name: str
    victim: Victim
    act: Callable[[Scene, Play], None]
    steps: list[str] = field(default_factory=list)
    fault: str = ""
    seconds: float = 0.0

    def run(self, scene: Scene) -> Play:
        started = time.monotonic()
        try:
            self.act(scene, self)
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
        self.seconds = time.monotonic() - started
        return self

    def saw(self, text: str, since: float | None = None) -> None:
        self.steps.append(text if since is None else f"{text} after {time.monotonic() - since:.1f} s")

    def expect(self, holds: object, text: str) -> None:
        if not holds:
            raise Unexpected(text)
        self.saw(text)


def marked(state: str) -> Callable[[Scene, Play], None]:
    def act(scene: Scene, play: Play) -> None:
        job = _job_under_way(scene, play)
        _link(scene, play, job)
        since = time.monotonic()
        scene.mark(play.victim, state)
        _killed(scene, play, job, since)
        time.sleep(_SETTLE_SECONDS)
        _once(scene, play, job)
        _one_job(scene, play)
        now = scene.row(play.victim)["state"]
        play.expect(now == state, f"task is {now}")
        _link(scene, play, job)

    return act


def cleared(scene: Scene, play: Play) -> None:
    job = _job_under_way(scene, play)
    since = time.monotonic()
    scene.clear(play.victim)
    _killed(scene, play, job, since)
    _until(lambda: len(_running(scene, play)) == 1, _NEXT_SECONDS, "a second job that runs")
    following = _running(scene, play)[0]
    play.saw(f"{following.job_id} runs", since)
    time.sleep(_SETTLE_SECONDS)
    _once(scene, play, job)
    play.expect(following.job_id.endswith("-t2"), f"next job is {following.job_id}")
    both = max(0.0, (job.finished_at - following.submitted_at).total_seconds())
    play.expect(both <= _DRAIN_SECONDS, f"both live for {both:.1f} s")
    states = [each.state.name for each in scene.jobs(play.victim)]
    play.expect(states == ["KILLED", "RUNNING"], f"jobs {states}")


def evicted(scene: Scene, play: Play) -> None:
    """SIGTERM to the process above the runner, as for a pod that has to go: Airflow passes it on to the runner."""
    job = _job_under_way(scene, play)
    row = scene.row(play.victim)
    supervisor = scene.airflow.runners()[row["id"]].parent()
    play.expect(supervisor.pid != scene.airflow.parts["scheduler"].pid, f"SIGTERM to {' '.join(supervisor.cmdline())}")
    since = time.monotonic()
    supervisor.send_signal(signal.SIGTERM)
    _until(lambda: _again(scene, play), _NEXT_SECONDS, "a second try")
    play.saw("try 2 runs", since)
    _until(lambda: _says(scene, play, f"Adopted {job.job_id}"), _NEXT_SECONDS, "the job to be adopted")
    play.saw("job adopted", since)
    _counted_on(scene, play, f"Adopted {job.job_id}")
    _one_job(scene, play)
    play.expect(job.state is JobState.RUNNING, f"job is {job.state.name}")
    play.expect(not scene.iris.terminations(job.job_id), "no TerminateJob")


def restarted(scene: Scene, play: Play) -> None:
    """The triggerer stops cleanly, twice. At last its successor must still be able to kill."""
    job = _job_under_way(scene, play)
    since = time.monotonic()
    _until(lambda: BOOKMARK_KEY in scene.xcoms(play.victim), _NEXT_SECONDS, "a bookmark")
    play.saw("bookmark", since)
    for number, sent in enumerate((signal.SIGTERM, signal.SIGINT), start=1):
        _restart(scene, play, sent, number)
        play.expect(scene.row(play.victim)["state"] == "deferred", "still deferred")
        play.expect(job.state is JobState.RUNNING, f"job is {job.state.name}")
    play.expect(not scene.iris.terminations(job.job_id), "no TerminateJob")
    _one_job(scene, play)
    since = time.monotonic()
    scene.mark(play.victim, "failed")
    _killed(scene, play, job, since)
    time.sleep(_SETTLE_SECONDS)
    _once(scene, play, job)


def marked_early(scene: Scene, play: Play) -> None:
    """While a new triggerer has its first talk with Airflow, which takes seconds: a kill must not get lost in there."""
    job = _job_under_way(scene, play)
    starts = _count(scene, play, " starting")
    _replace_triggerer(scene, play, signal.SIGTERM)
    _until(lambda: _count(scene, play, " starting") > starts, _NEXT_SECONDS, "the trigger to start again")
    since = time.monotonic()
    scene.mark(play.victim, "failed")
    _killed(scene, play, job, since)
    time.sleep(_SETTLE_SECONDS)
    _once(scene, play, job)
    _one_job(scene, play)


def marked_unwatched(state: str) -> Callable[[Scene, Play], None]:
    """In the moment in which the task is deferred, when no triggerer has its trigger yet: nobody to call on_kill of."""

    def act(scene: Scene, play: Play) -> None:
        with scene.triggerer_stalled():
            scene.release(play.victim)
            _until(lambda: scene.row(play.victim).get("state") == "deferred", _START_SECONDS, "the task to be deferred")
            job = _running(scene, play)[0]
            since = time.monotonic()
            scene.mark(play.victim, state)
            _killed(scene, play, job, since)
            play.expect(not _count(scene, play, " starting"), "no trigger has started")
        time.sleep(_SETTLE_SECONDS)
        _once(scene, play, job)
        _one_job(scene, play)
        now = scene.row(play.victim)["state"]
        play.expect(now == state, f"task is {now}")

    return act


def stalled(scene: Scene, play: Play) -> None:
    """Another triggerer takes over. The first one comes back and finds its triggers gone: to Airflow 3.3.0 to 3.3.2
    that looks like a kill."""
    job = _job_under_way(scene, play)
    _until(lambda: BOOKMARK_KEY in scene.xcoms(play.victim), _NEXT_SECONDS, "a bookmark")
    since, said = time.monotonic(), "Another triggerer goes on"
    before = _count(scene, play, said)
    with scene.triggerer_stalled():
        scene.airflow.second_triggerer().start()
        _until(lambda: _count(scene, play, said) > before, _NEXT_SECONDS, f"{said!r}")
        play.saw("watched by another triggerer", since)
    time.sleep(_SETTLE_SECONDS)
    play.saw("on_kill was called" if _says(scene, play, "Told to stop") else "on_kill was not called")
    _counted_on(scene, play, said)
    now = scene.row(play.victim)["state"]
    play.expect(now == "deferred", f"task is {now}")
    play.expect(job.state is JobState.RUNNING, f"job is {job.state.name}")
    play.expect(not scene.iris.terminations(job.job_id), "no TerminateJob")
    _one_job(scene, play)


def secret_kept(value: str) -> Callable[[Scene, Play], None]:
    def act(scene: Scene, play: Play) -> None:
        job = _job_under_way(scene, play)
        _until(lambda: any("token of" in line for line in scene.log(play.victim)), KILL_SECONDS, "the job's first line")
        play.expect(_says(scene, play, f"token of {len(value)} characters"), "the job has the secret")
        shown = {
            "xcomEntries": str(scene.xcoms(play.victim)),
            "rendered fields": scene.rendered_fields(play.victim),
            "task log by REST": scene.shown_log(play.victim),
            "task log files": "\n".join(scene.log(play.victim)),
            "trigger row": scene.trigger_row(play.victim),
        }
        play.expect(job.job_id in shown["trigger row"], "trigger row is read")
        play.expect("token of" in shown["task log by REST"], "task log is read")
        play.expect("resource_config" in shown["rendered fields"], "rendered fields are read")
        forms = (value, base64.b64encode(value.encode()).decode().rstrip("="))
        leaks = [where for where, text in shown.items() if any(form in text for form in forms)]
        leaks += [path for form in forms for path in scene.files_with(form.encode())]
        play.expect(not leaks, f"secret in {leaks or 'no place'}")

    return act


def _job_under_way(scene: Scene, play: Play) -> Job:
    wanted = "deferred" if play.victim.deferrable else "running"
    _until(lambda: _running(scene, play) or _over(scene, play), _START_SECONDS, "a job that runs")
    if _over(scene, play):
        raise Unexpected("the task ended before its job ran")
    _until(lambda: scene.row(play.victim).get("state") == wanted, _START_SECONDS, f"the task to be {wanted}")
    if play.victim.deferrable:
        # Until then Airflow has nobody to tell of a kill: it deletes the trigger, and the job goes on.
        _until(lambda: _count(scene, play, " starting"), _START_SECONDS, "the triggerer to take the trigger up")
    time.sleep(_WATCHED_SECONDS)
    return _running(scene, play)[0]


def _killed(scene: Scene, play: Play, job: Job, since: float) -> None:
    _until(lambda: job.state.finished, KILL_SECONDS, "the job to end")
    play.saw("job ended", since)
    with IrisClient(scene.seen.target) as client:
        error = client.job_status(job.job_id).error
    play.expect(job.state is JobState.KILLED and error == "Terminated by user", f"{job.state.name}: {error}")


def _once(scene: Scene, play: Play, job: Job) -> None:
    """Who clears a task has two that end its job, the trigger and the next try: the later one comes to an ended job."""
    asked = scene.iris.terminations(job.job_id)
    play.expect(sum(asked) == 1, f"TerminateJob x {len(asked)}, with effect {sum(asked)}")


def _one_job(scene: Scene, play: Play) -> None:
    jobs = scene.jobs(play.victim)
    play.expect(len(jobs) == 1, "one job" if len(jobs) == 1 else f"jobs {[str(each) for each in jobs]}")


def _link(scene: Scene, play: Play, job: Job) -> None:
    expected = f"{DASHBOARD}/#/job/{quote(job.job_id, safe='')}"
    link, state = scene.link(play.victim), scene.row(play.victim)["state"]
    play.expect(link == expected, f"link while {state}" if link == expected else f"link while {state} is {link}")


def _running(scene: Scene, play: Play) -> list[Job]:
    return [job for job in scene.jobs(play.victim) if job.live and job.state is JobState.RUNNING]


def _over(scene: Scene, play: Play) -> bool:
    return scene.row(play.victim).get("state") in ("failed", "success")


def _again(scene: Scene, play: Play) -> bool:
    row = scene.row(play.victim)
    return bool(row) and row["try_number"] == 2 and row["state"] == "running"


def _says(scene: Scene, play: Play, text: str) -> bool:
    return any(text in line for line in scene.log(play.victim))


def _restart(scene: Scene, play: Play, sent: signal.Signals, number: int) -> None:
    said, since = "Another triggerer goes on", time.monotonic()
    _replace_triggerer(scene, play, sent)
    _until(lambda: _count(scene, play, said) == number, _NEXT_SECONDS, f"{said!r}")
    play.saw("watched again", since)
    _counted_on(scene, play, said)


def _replace_triggerer(scene: Scene, play: Play, sent: signal.Signals) -> None:
    part, since = scene.airflow.parts["triggerer"], time.monotonic()
    os.kill(part.pid, sent)
    _until(lambda: not part.alive(), KILL_SECONDS, f"the triggerer to stop on {sent.name}")
    play.saw(f"{sent.name}: triggerer stopped", since)
    left = [process.pid for process in part.members()]
    play.expect(not left, f"left of it: {left or 'nothing'}")
    part.start()


def _count(scene: Scene, play: Play, text: str) -> int:
    return sum(text in line for line in scene.log(play.victim))


def _counted_on(scene: Scene, play: Play, said: str) -> None:
    """Lines of the job that it had not written yet when `said` was."""
    before = max(_counts(scene.log(play.victim)), default=0)
    _until(lambda: max(_counts(_after(scene.log(play.victim), said)), default=0) > before, KILL_SECONDS, "new lines")
    play.saw(f"lines beyond count {before}")


def _after(lines: list[str], said: str) -> list[str]:
    last = max(number for number, line in enumerate(lines) if said in line)
    return lines[last:]


def _counts(lines: list[str]) -> Iterator[int]:
    return (int(found[1]) for line in lines if (found := re.search(r"count (\d+)", line)))


def _until(look: Callable[[], object], seconds: float, what: str) -> None:
    until(lambda: _quietly(look), seconds, what)


def _quietly(look: Callable[[], object]) -> object:
    """A process or a row may go away while it is looked at."""
    try:
        return look()
    except (psutil.Error, OSError, KeyError):
        return None
