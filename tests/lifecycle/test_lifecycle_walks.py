"""A launch on every path that hypothesis finds: progress, preemption, outages, lost replies, crashes, hand-overs."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from controller_model import ModelController
from hypothesis import given, settings
from hypothesis import strategies as st
from launch_walk import TRIES, Options, Walk

from fray_airflow.errors import (
    IrisUnavailableError,
    JobExistsError,
    JobFailedError,
    JobNotFoundError,
    JobTimeoutError,
    PlacementTimeoutError,
)
from fray_airflow.lifecycle import Finish, Submit, Terminate
from fray_airflow.states import JobState

REPLICA = st.integers(0, 1)
PROGRESS = st.one_of(
    st.tuples(st.sampled_from(["place", "start", "line", "succeed", "fail", "preempt"]), REPLICA),
    st.sampled_from([("odd",), ("place", 0), ("place", 1), ("start", 0), ("start", 1), ("line", 0), ("line", 0)]),
)
ENDINGS = st.sampled_from([("kill",), ("give_up",)])
SHORT_TROUBLE = st.one_of(
    st.tuples(st.sampled_from(["away", "logs_away"]), st.floats(0.1, 20)),
    st.tuples(st.just("internal"), st.integers(1, 3)),
)
TROUBLE = st.one_of(
    SHORT_TROUBLE,
    st.tuples(st.just("away"), st.floats(20, 500)),
    st.sampled_from([("lose_submit",), ("lose_submit",), ("forget",)]),
)
DEATHS = st.tuples(st.sampled_from(["crash", "die_after_call"]), st.booleans())
SECONDS = st.one_of(st.floats(0, 2), st.floats(0, 200)).map(lambda each: round(each, 3))


def scripts(*events: st.SearchStrategy[tuple[Any, ...]], most: int = 40) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(SECONDS, st.one_of(*events)), max_size=most)


FINALS = st.sampled_from([JobState.SUCCEEDED, JobState.FAILED, JobState.WORKER_FAILED, JobState.KILLED])
OPTIONS = st.builds(
    Options,
    named=st.booleans(),
    poll_interval=st.sampled_from([2, 10, 30]),
    placement_timeout=st.sampled_from([None, None, 5, 40]),
    execution_timeout=st.sampled_from([None, None, 30, 150]),
    outage_tolerance=st.sampled_from([30, 300]),
    hand_over=st.frozensets(st.integers(1, 30), max_size=6),
)
WORLDS = {
    "replicas": st.integers(1, 2),
    "final": FINALS,
    "cost": st.sampled_from([0.0, 0.05, 1.0]),
    "failures_allowed": st.integers(0, 1),
    "preemptions_allowed": st.integers(0, 2),
}


@settings(deadline=None, max_examples=120)
@given(scripts(PROGRESS, PROGRESS, TROUBLE, DEATHS, ENDINGS), st.fixed_dictionaries(WORLDS), OPTIONS)
def test_every_launch_ends_as_its_job_does_whatever_happens(script, world, options):
    """One job at a time, adopted after a crash, never done twice, told line by line: the walk checks it all the way."""
    walk = Walk(ModelController(script, **world), options)
    end = walk.run()
    assert (end.result is None) is not (end.error is None)


@settings(deadline=None, max_examples=50)
@given(scripts(PROGRESS, PROGRESS, PROGRESS, ENDINGS), st.fixed_dictionaries(WORLDS), OPTIONS)
def test_without_faults_each_try_submits_once_and_reads_to_the_end(script, world, options):
    """No outage, no crash: a Submit per try, and an end that is the job's own or one of the author's timeouts."""
    walk = Walk(ModelController(script, **world), options)
    walk.run()
    assert sum(isinstance(action, Submit) for action in walk.actions) == walk.try_number
    assert not any(isinstance(end.error, IrisUnavailableError | JobNotFoundError) for end in walk.ends)


@settings(deadline=None, max_examples=50)
@given(
    scripts(PROGRESS, PROGRESS, SHORT_TROUBLE, ENDINGS),
    st.fixed_dictionaries({**WORLDS, "cost": st.just(0.0)}),
    OPTIONS,
    st.frozensets(st.integers(1, 60), min_size=1, max_size=10),
)
def test_a_launch_that_is_handed_over_ends_like_one_that_is_not(script, world, options, at):
    """Sync and deferrable mode differ only in who carries out the actions."""
    options.outage_tolerance = 3600
    if any(event[0] in ("away", "internal") for _, event in script):
        # Which look is the last one before a limit, and whether it is answered, may differ by a second.
        options.placement_timeout = options.execution_timeout = None
    ends = []
    for hand_over in (frozenset(), at):
        walk = Walk(ModelController(script, **world), Options(**{**vars(options), "hand_over": hand_over}))
        # A second try would start a little later, and meet another world.
        walk.try_number = TRIES
        ends.append(_said(walk.run()))
    assert ends[0] == ends[1]


@settings(deadline=None, max_examples=25)
@given(scripts(PROGRESS, PROGRESS, most=25), st.fixed_dictionaries({**WORLDS, "cost": st.just(0.0)}))
def test_the_story_is_told_once_over_any_number_of_drivers(script, world):
    """A hand-over at each wait repeats neither lines of the log nor lines about replicas and places."""
    walk = Walk(ModelController(script, **world), Options(hand_over=frozenset(range(1, 500))))
    walk.try_number = TRIES
    walk.run()
    repeated = {text for text, count in Counter(walk.story).items() if count > 1}
    assert {text for text in repeated if text.startswith(("[replica", "replica", "All", "Submitted"))} == set()
    places = [text for text in walk.story if text.startswith("On ")]
    assert all(one != other for one, other in pairwise(places))


@settings(deadline=None, max_examples=25)
@given(
    scripts(PROGRESS, DEATHS, SHORT_TROUBLE, most=10),
    st.sampled_from(list(JobState)),
    st.sampled_from(["other.token", "other"]),
    st.booleans(),
)
def test_the_job_of_somebody_else_is_left_alone(script, state, token, named):
    """Whatever its state, it is neither adopted nor replaced nor terminated, and the task is told so."""
    world = ModelController(script)
    walk = Walk(world, Options(named=named, execution_timeout=30))
    for number in range(1, 5):
        world.add(walk.planned(number).job_id, token, state)
    others = dict(world.jobs)
    end = walk.run()
    assert isinstance(end.error, JobExistsError | IrisUnavailableError) or (end.error and end.error.code == "internal")
    assert world.jobs == others
    assert all(job.state is state for job in others.values())
    assert walk.ours() == []


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("at", [0.0, 0.7, 3.0])
def test_a_live_job_is_adopted_after_a_crash(named, same, at):
    """Before its reply is heard, on its way and while it runs: there is only ever one LaunchJob."""
    script = [(at, ("die_after_call", same)), (5, ("place", 0)), (6, ("start", 0)), (40, ("line", 0))]
    walk = Walk(ModelController(script, cost=0.3), Options(named=named))
    end = walk.run()
    assert end.result is not None
    assert len(walk.ours()) == 1
    assert walk.try_number == (1 if same else 2)


@pytest.mark.parametrize("named", [False, True])
def test_a_job_that_succeeded_while_nobody_watched_is_a_success(named):
    """The next try takes its result without another LaunchJob."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (3, ("line", 0)), (3.5, ("succeed", 0)), (3.6, ("crash", False))]
    walk = Walk(ModelController(script), Options(named=named, poll_interval=30))
    end = walk.run()
    assert walk.try_number == 2
    assert end.result is not None
    assert end.result["result"] == {"incarnation": 0}
    assert len(walk.ours()) == 1


@pytest.mark.parametrize("named", [False, True])
def test_a_failed_try_is_run_anew(named):
    """Its lines stay with it: the new job's log starts empty, also under the same name."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (3, ("line", 0)), (4, ("fail", 0))]
    walk = Walk(ModelController(script), Options(named=named))
    end = walk.run()
    assert isinstance(walk.ends[0].error, JobFailedError)
    assert end.result is not None
    assert [job.state for job in walk.ours()] == [JobState.FAILED, JobState.SUCCEEDED]
    assert walk.story[0].startswith("Submitted")


def test_a_lost_reply_to_a_submission_makes_no_second_job():
    """The machine looks again within the same try and finds its own."""
    walk = Walk(ModelController([(0, ("lose_submit",))], cost=0.1), Options())
    end = walk.run()
    assert end.result is not None
    assert (walk.try_number, len(walk.ours())) == (1, 1)
    assert sum(isinstance(action, Submit) for action in walk.actions) == 1
    assert walk.story[:3] == [
        "Iris does not answer. Submission is tried again.",
        f"Adopted {end.result['job_id']}",
        "Iris answers again.",
    ]


def test_a_submission_outlives_a_short_outage():
    """The controller goes away between the look and the submission, and comes back within the tolerance."""
    walk = Walk(ModelController([(0.15, ("away", 100))], cost=0.1), Options(outage_tolerance=300))
    assert walk.run().result is not None
    assert walk.try_number == 1


def test_a_submission_gives_up_after_the_tolerance():
    """Looking up that works does not hide that submitting never does."""

    class Deaf(ModelController):
        def _submit(self, action: Submit) -> str:
            raise IrisUnavailableError("deadline exceeded", code="deadline_exceeded")

    walk = Walk(Deaf(), Options(outage_tolerance=60, poll_interval=10))
    walk.try_number = TRIES
    walk.check_end = lambda talk, end: walk.ends.append(end)
    assert isinstance(walk.run().error, IrisUnavailableError)
    assert 60 < (walk.world.now - walk.began).total_seconds() < 90


def test_an_outage_before_the_first_look_is_waited_for():
    """The controller has said who we are already, so the address is right."""
    walk = Walk(ModelController([(0, ("away", 30))], cost=0.1), Options())
    walk.run()
    assert walk.ends[0].result["state"] == "SUCCEEDED"


def test_an_outage_within_the_tolerance_is_only_told():
    """The job ends meanwhile; its end, exit code and lines are there afterwards."""
    script = [
        *[(1, ("place", 0)), (2, ("start", 0)), (9, ("line", 0)), (10, ("away", 200)), (15, ("line", 0))],
        (20, ("fail", 0)),
    ]
    walk = Walk(ModelController(script), Options(outage_tolerance=300))
    walk.try_number = TRIES
    end = walk.run()
    assert isinstance(end.error, JobFailedError)
    assert end.error.exit_code == 3
    assert [text for text in walk.story if "answer" in text] == [
        "Iris does not answer. The job is not affected; watching goes on.",
        "Iris answers again.",
    ]


def test_an_outage_beyond_the_tolerance_leaves_the_job_to_the_next_try():
    """The job goes on: it is neither terminated nor launched again."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (10, ("away", 95))]
    walk = Walk(ModelController(script), Options(outage_tolerance=60))
    end = walk.run()
    assert isinstance(walk.ends[0].error, IrisUnavailableError)
    assert end.result is not None
    assert len(walk.ours()) == 1
    assert walk.world.terminated == []


def test_a_job_that_the_controller_forgot_is_waited_for_a_minute():
    """Then the try ends, and the next one launches anew."""
    walk = Walk(ModelController([(1, ("place", 0)), (5, ("forget",))]), Options())
    end = walk.run()
    assert isinstance(walk.ends[0].error, JobNotFoundError)
    assert end.result is not None
    assert len(walk.ours()) == 2


def test_placement_is_not_given_up_on_the_strength_of_an_old_look():
    """The controller is away when the limit passes; by its return the job is placed."""
    script = [(4, ("away", 20)), (5, ("place", 0)), (9, ("start", 0))]
    walk = Walk(ModelController(script), Options(placement_timeout=10))
    assert walk.run().result is not None
    assert walk.world.terminated == []


def test_replicas_that_could_not_be_read_are_read_again():
    """The job's state is read, its replicas are not: without the second look placement would seem to be missing."""
    script = [(1, ("place", 0)), (2, ("start", 0))]

    class HalfAway(ModelController):
        refusals = 2

        def tasks(self, job_id: str) -> Any:
            if self.jobs[job_id].state is JobState.RUNNING and self.refusals:
                self.refusals -= 1
                raise IrisUnavailableError("connection reset", code="unavailable")
            return super().tasks(job_id)

    walk = Walk(HalfAway([*script, (30, ("line", 0))]), Options(placement_timeout=20))
    assert walk.run().result is not None
    assert walk.world.terminated == []


def test_placement_that_does_not_come_ends_the_job_once():
    """The error says Iris's own last reason."""
    walk = Walk(ModelController([(100, ("odd",))], replicas=2), Options(placement_timeout=20))
    walk.try_number = TRIES
    end = walk.run()
    assert isinstance(end.error, PlacementTimeoutError)
    assert (end.error.state, end.error.pending_reason) == ("KILLED", "no free slice")
    assert sum(isinstance(action, Terminate) for action in walk.actions) == 1
    assert [job.killed_by_us for job in walk.ours()] == [True]


def test_a_replica_that_is_done_counts_as_placed():
    """Its machine may be gone before the last replica finds one."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (3, ("succeed", 0)), (4, ("place", 1)), (30, ("start", 1))]

    class Shrinking(ModelController):
        def _end_task(self, task: Any, state: Any, **facts: Any) -> None:
            super()._end_task(task, state, **facts)
            task.worker = ""

    walk = Walk(Shrinking(script, replicas=2), Options(placement_timeout=20))
    assert walk.run().result is not None


def test_the_deadline_terminates_a_job_that_runs():
    """Once, and at the deadline: the machine wakes for it."""
    walk = Walk(ModelController([(1, ("place", 0)), (200, ("odd",))]), Options(execution_timeout=33, poll_interval=30))
    walk.try_number = TRIES
    end = walk.run()
    assert isinstance(end.error, JobTimeoutError)
    assert (walk.world.now - walk.began).total_seconds() == pytest.approx(33, abs=0.1)
    assert len(walk.world.terminated) == 1


def test_a_job_that_ended_before_the_deadline_keeps_its_end():
    """Nobody looked since; the last look decides."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (32, ("succeed", 0))]
    walk = Walk(ModelController(script), Options(execution_timeout=33, poll_interval=30))
    assert walk.run().result is not None
    assert walk.world.terminated == []


def test_a_termination_that_is_not_answered_is_sent_again():
    """The author's timeout holds also when the controller is away just then."""
    walk = Walk(ModelController([(1, ("place", 0)), (28, ("away", 40))]), Options(execution_timeout=30))
    walk.world.settles_at = walk.world.now.replace(year=2031)
    walk.try_number = TRIES
    end = walk.run()
    assert isinstance(end.error, JobTimeoutError)
    assert [job.killed_by_us for job in walk.ours()] == [True]


def test_an_unknown_state_is_not_an_end():
    """A newer server's state is told and watched on."""
    script = [(1, ("place", 0)), (2, ("odd",)), (60, ("odd",))]
    walk = Walk(ModelController(script), Options(poll_interval=2))
    assert walk.run().result is not None
    assert any(text.startswith("UNKNOWN(77)") for text in walk.story)


@pytest.mark.parametrize("away", [5, 25])
def test_the_last_lines_are_awaited_while_the_log_is_away(away):
    """The job's result is one of them."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (9.5, ("logs_away", away)), (10, ("succeed", 0))]
    end = Walk(ModelController(script), Options()).run()
    assert end.result is not None
    assert end.result["result"] == {"incarnation": 0}


def test_a_log_that_stays_away_does_not_hold_an_end_for_ever():
    """After half a minute the job's end counts without its last lines, and the gap was told once."""
    script = [(1, ("place", 0)), (2, ("start", 0)), (9, ("logs_away", 5000)), (10, ("succeed", 0))]
    walk = Walk(ModelController(script), Options())
    end = walk.run()
    assert end.result is not None
    assert end.result["result"] is None
    assert (walk.world.now - walk.began).total_seconds() < 60
    assert sum("log cannot be read" in text for text in walk.story) == 1


def test_an_outage_right_at_the_end_costs_neither_facts_nor_lines():
    """The end is seen, then the controller is away for longer than the drain lasts."""

    class AwayAtTheEnd(ModelController):
        def job_status(self, job_id: str) -> Any:
            status = super().job_status(job_id)
            if status.state.finished and self.away_until < self.now:
                self.away_until = self.now + timedelta(seconds=90)
            return status

    script = [(1, ("place", 0)), (2, ("start", 0)), (9, ("line", 0)), (10, ("fail", 0))]
    walk = Walk(AwayAtTheEnd(script), Options(outage_tolerance=600))
    walk.try_number = TRIES
    end = walk.run()
    assert isinstance(end.error, JobFailedError)
    assert end.error.exit_code == 3
    assert "[replica 0] line 0.0" in walk.story
    assert "line 0.0" in str(end.error)


def test_an_end_that_was_seen_counts_even_if_the_controller_never_returns():
    """Only the facts that could not be read are missing."""

    class GoneAtTheEnd(ModelController):
        def tasks(self, job_id: str) -> Any:
            if not self.jobs[job_id].live:
                raise IrisUnavailableError("connection refused", code="unavailable")
            return super().tasks(job_id)

    walk = Walk(GoneAtTheEnd([(1, ("place", 0))]), Options(outage_tolerance=60))
    walk.check_end = lambda talk, end: walk.ends.append(end)
    end = walk.run()
    assert end.result is not None
    assert end.result["state"] == "SUCCEEDED"


def _said(end: Finish) -> Any:
    return end.result if end.error is None else end.error.to_json()
