"""Walks a launch through a controller that has its own mind, and checks on the way what must always hold."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from controller_model import Crash, ModelController, ModelJob

from fray_airflow.errors import (
    IrisError,
    IrisUnavailableError,
    JobExistsError,
    JobFailedError,
    JobKilledError,
    JobNotFoundError,
    JobPreemptedError,
    JobTimeoutError,
    PlacementTimeoutError,
    UnschedulableError,
)
from fray_airflow.identity import LaunchIdentity
from fray_airflow.lifecycle import (
    Action,
    Conversation,
    Finish,
    LookUp,
    Plan,
    PlannedJob,
    ReadStatus,
    Seen,
    Submit,
    Terminate,
    Wait,
)
from fray_airflow.rung import Rung
from fray_airflow.states import JobState

TRIES = 4
MOST_ACTIONS = 6000

ENDS = {
    JobFailedError: JobState.FAILED,
    JobKilledError: JobState.KILLED,
    JobPreemptedError: JobState.WORKER_FAILED,
    UnschedulableError: JobState.UNSCHEDULABLE,
}


@dataclass
class Options:
    """What the author asked for. `named`: one job name for all tries."""

    named: bool = False
    poll_interval: float = 10
    placement_timeout: float | None = None
    execution_timeout: float | None = None
    outage_tolerance: float = 300
    hand_over: frozenset[int] = frozenset()


@dataclass
class Walk:
    """One task instance through its tries. `story` is all that was told since the last crash."""

    world: ModelController
    options: Options
    try_number: int = 1
    ends: list[Finish] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    waits: int = 0
    looked_at: Any = None

    def run(self) -> Finish:
        """Until a try ends that Airflow would not follow with another."""
        talk = self._begin()
        for _ in range(MOST_ACTIONS):
            try:
                action = talk.next()
                # There for the asking at any time.
                json.dumps(talk.facts())
                self.actions.append(action)
                if isinstance(action, Finish):
                    self.check_end(talk, action)
                    if not self._goes_on(action):
                        return action
                    self.world.advance(60)
                    talk = self._next_try()
                elif isinstance(action, Wait):
                    talk = self._wait(talk, action)
                else:
                    self._check_call(talk, action)
                    talk.hear(action, self.world.perform(action))
                    self._check_world()
            except Crash as crash:
                talk = self._begin() if crash.same or self.try_number == TRIES else self._next_try()
        raise AssertionError(f"no end after {MOST_ACTIONS} actions; the last were {self.actions[-8:]}")

    def _wait(self, talk: Conversation, action: Wait) -> Conversation:
        assert 0 < action.seconds <= max(self.options.poll_interval, 0.5)
        self.waits += 1
        self.world.advance(action.seconds)
        if self.waits in self.options.hand_over and talk.seen.job_id:
            value = json.loads(json.dumps(talk.to_json()))
            return Conversation.resume(value, clock=lambda: self.world.now, tell=self._tell)
        talk.hear(action, None)
        return talk

    def _begin(self) -> Conversation:
        self.story = []
        self.began = self.world.now
        self.world.last_answer = None
        return Conversation(self.plan(), Seen(), clock=lambda: self.world.now, tell=self._tell)

    def _next_try(self) -> Conversation:
        self.try_number += 1
        return self._begin()

    def plan(self) -> Plan:
        limit = self.options.execution_timeout
        return Plan(
            job=self.planned(self.try_number),
            earlier=tuple(self.planned(number) for number in range(self.try_number - 1, 0, -1)),
            rungs=(Rung(self.world.replicas, chips_per_replica=4),),
            poll_interval=self.options.poll_interval,
            placement_timeout=self.options.placement_timeout,
            deadline=self.world.now + timedelta(seconds=limit) if limit else None,
            outage_tolerance=self.options.outage_tolerance,
        )

    def planned(self, number: int) -> PlannedJob:
        who = LaunchIdentity("here", "airflow", "dag", "run", "task", -1, number, "2030-01-01")
        return PlannedJob("/airflow/given" if self.options.named else who.job_id(), who.token())

    def _tell(self, _: int, text: str) -> None:
        self.story.append(text)

    def ours(self) -> list[ModelJob]:
        return [job for job in self.world.history if not job.token.startswith("other")]

    # What must hold

    def _check_world(self) -> None:
        live = self.world.live_jobs()
        assert len(live) <= 1, f"two jobs of one task run at once: {live}"

    def _check_call(self, talk: Conversation, action: Action) -> None:
        now = self.world.now
        if isinstance(action, LookUp | ReadStatus):
            self.looked_at = now
        if isinstance(action, Submit):
            there = [job for job in self.world.jobs.values() if not job.token.startswith("other")]
            assert not [job for job in there if job.live], "a job that runs was not adopted"
            assert not [job for job in there if job.state is JobState.SUCCEEDED], "work that is done is done again"
            holder = self.world.jobs.get(action.job.job_id)
            assert not (holder and action.replace and holder.token.startswith("other")), "another's job is replaced"
        if isinstance(action, Terminate):
            job = self.world.jobs.get(action.job_id)
            assert job is None or not job.token.startswith("other"), "another's job is terminated"
            placement = self.options.placement_timeout
            late = talk.plan.deadline is not None and now >= talk.plan.deadline
            if not late:
                assert placement is not None, "nobody asked for this job to end"
                assert talk.seen.since is not None
                assert now >= talk.seen.since + timedelta(seconds=placement)
                placed_at = job.all_placed_at if job else None
                assert placed_at is None or placed_at >= self.looked_at, "a job that is placed is given up"
            done = self.world.terminated.count(job) if job else 0
            assert not done, "terminated twice"

    def check_end(self, talk: Conversation, end: Finish) -> None:
        job = self.world.jobs.get(talk.seen.job_id)
        if job is None and talk.seen.finished_at is not None:
            # Its end was seen before the controller forgot it; its facts and last lines may be gone with it.
            last = [each for each in self.world.history if each.job_id == talk.seen.job_id][-1]
            assert last.state is (JobState.SUCCEEDED if end.result else ENDS[type(end.error)])
        elif end.result is not None:
            assert job is not None
            assert job.state is JobState.SUCCEEDED
            assert end.result["job_id"] == job.job_id
            if not self._log_failed_at_the_end(job):
                assert end.result["result"] == job.result
        elif isinstance(end.error, JobTimeoutError | PlacementTimeoutError):
            assert job is None or job.state.finished
        elif type(end.error) in ENDS:
            assert job is not None
            assert job.state is ENDS[type(end.error)]
            if job.state is JobState.FAILED:
                assert end.error.exit_code == 3
        elif isinstance(end.error, IrisUnavailableError):
            heard = self.world.last_answer
            assert heard is None or self.world.now - heard > timedelta(seconds=self.options.outage_tolerance)
        elif isinstance(end.error, JobNotFoundError):
            assert job is None
        elif isinstance(end.error, JobExistsError):
            holder = self.world.jobs.get(talk.plan.job.job_id)
            assert holder is None or holder.token.startswith("other")
        else:
            # INTERNAL on a submission's call.
            assert isinstance(end.error, IrisError)
            assert end.error.code == "internal"
            assert not talk.seen.job_id
        self._check_lines(job, end)
        self.ends.append(end)

    def _check_lines(self, job: ModelJob | None, end: Finish) -> None:
        told = [text for text in self.story if text.startswith("[replica")]
        if job is None:
            return
        assert [text for text in told if text not in job.lines] == [], "lines of another job are told"
        assert len(told) == len(set(told)), "a line is told twice"
        watched_to_the_end = end.result is not None or type(end.error) in ENDS
        if watched_to_the_end and not self._log_failed_at_the_end(job):
            assert told == job.lines, "lines are lost"

    def _log_failed_at_the_end(self, job: ModelJob) -> bool:
        return any(job.finished_at is not None and at >= job.finished_at for at in self.world.log_failures)

    def _goes_on(self, end: Finish) -> bool:
        hopeless = isinstance(end.error, JobKilledError | JobExistsError)
        return end.error is not None and not hopeless and self.try_number < TRIES
