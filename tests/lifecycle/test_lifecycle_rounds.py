"""Several launches of one try: ladders and slices, whatever dies between two calls."""

from dataclasses import replace

from controller_model import ModelController
from hypothesis import given, settings
from hypothesis import strategies as st
from known_launch import at, attempt, identity, status

from fray_airflow.errors import (
    JobFailedError,
    JobKilledError,
    JobNotFoundError,
    PlacementTimeoutError,
    SubmissionRejectedError,
)
from fray_airflow.lifecycle import (
    Conversation,
    Finish,
    Plan,
    PlannedJob,
    ReadBands,
    Round,
    Seen,
    Stop,
    Submit,
    Terminate,
    Wait,
    story,
)
from fray_airflow.lifecycle.slices import sum_of
from fray_airflow.rung import Rung
from fray_airflow.states import JobState, TaskState

SLICES = (Rung(2, slices=2),)
LADDER = (Rung(1), Rung(1))
NOTHING = JobNotFoundError("no such job", code="not_found")
QUIET = (5000, ("line", 0))
"""Until then the model places nothing by itself."""


def plan(try_number=1, **changes):
    who = identity(try_number)
    job = PlannedJob(who.job_id(), who.token())
    return Plan(**{"job": job, "placement_timeout": 60, "last_try": True, **changes})


class Driver:
    """Carries out what the machine says. `deaths`: the driver is gone after so many calls, and another one starts."""

    def __init__(self, world, launch, deaths=()):
        self.world, self.launch, self.deaths = world, launch, list(deaths)
        self.told, self.calls = [], []
        self.begin()

    def begin(self):
        self.talk = Conversation(self.launch, Seen(), clock=lambda: self.world.now, tell=self.tell)

    def tell(self, _, text):
        self.told.append(text)

    def run(self, until=lambda driver: False):
        for _ in range(3000):
            action = self.talk.next()
            if isinstance(action, Finish):
                return action
            if isinstance(action, Wait):
                self.world.advance(action.seconds)
                self.talk.hear(action, None)
            else:
                self.calls.append(action)
                self.talk.hear(action, self.world.perform(action))
                self.check()
                if self.deaths and len(self.calls) >= self.deaths[0]:
                    self.deaths.pop(0)
                    self.begin()
            if until(self):
                return None
        raise AssertionError(f"no end; the last calls were {self.calls[-6:]}")

    def check(self):
        live = [job.job_id for job in self.world.live_jobs()]
        slices = max(rung.slices for rung in self.launch.rungs)
        assert len(live) <= slices
        assert len({job_id.split("-s")[0] for job_id in live}) <= 1, f"jobs of two launches run at once: {live}"

    def states(self):
        return {job_id.removeprefix(self.launch.job.job_id): job.state.name for job_id, job in self.world.jobs.items()}


def place(world, name):
    """Only this job finds machines."""
    (job,) = [job for job in world.live_jobs() if job.job_id.endswith(name)]
    for task in job.tasks:
        task.state, task.worker = TaskState.ASSIGNED, f"worker-{job.job_id}"
    job.state = JobState.RUNNING


DEATHS = st.lists(st.integers(1, 90), max_size=6).map(sorted)


@settings(deadline=None, max_examples=80)
@given(DEATHS)
def test_a_ladder_takes_its_second_rung_whatever_dies_on_the_way(deaths):
    """At most one job lives at any moment, each rung is submitted once, and the result says which ran."""
    script = [(80, ("place", 0)), (81, ("start", 0)), (90, ("succeed", 0)), QUIET]
    driver = Driver(ModelController(script), plan(rungs=LADDER), deaths)
    end = driver.run()
    assert end.result is not None
    assert end.result["rung"] == 1
    assert driver.states() == {"": "KILLED", "-r1": "SUCCEEDED"}
    assert len(driver.world.history) == 2


@settings(deadline=None, max_examples=80)
@given(DEATHS)
def test_slices_are_launched_once_each_whatever_dies_between_them(deaths):
    """A driver that finds half of a launch submits the other half, and no third job."""
    script = [(20, ("place", 0)), (21, ("start", 0)), (30, ("succeed", 0)), QUIET]
    driver = Driver(ModelController(script), plan(rungs=SLICES), deaths)
    end = driver.run()
    assert end.result is not None
    assert driver.states() == {"": "SUCCEEDED", "-s1": "SUCCEEDED"}
    assert len(driver.world.history) == 2


class OneFails(ModelController):
    """Of each launch the second slice's program fails; the others would run for ever."""

    def _happen_fail(self, index):
        for job in self.live_jobs():
            if job.job_id.endswith("-s1") and job.tasks[index].state is TaskState.RUNNING:
                self._end_task(job.tasks[index], TaskState.FAILED, exit_code=3, error="Exit code: 3")
                self._end(job, JobState.FAILED, "Exit code: 3")


@settings(deadline=None, max_examples=80)
@given(DEATHS, st.integers(0, 1))
def test_a_launch_whose_slice_fails_ends_or_starts_again_as_a_whole(deaths, restarts):
    """Nothing computes on for a launch that has failed, whichever driver dies on the way."""
    events = [(at, (what, 0)) for start in (20, 70) for at, what in ((start, "place"), (start + 1, "start"))]
    script = [*events, (40, ("fail", 0)), (90, ("fail", 0)), QUIET]
    driver = Driver(OneFails(script), plan(rungs=SLICES, slice_failures=restarts, placement_timeout=None), deaths)
    assert isinstance(driver.run().error, JobFailedError)
    again = {"-r1": "KILLED", "-r1-s1": "FAILED"} if restarts else {}
    assert driver.states() == {"": "KILLED", "-s1": "FAILED", **again}


class SecondTry(OneFails):
    """The launch that comes after the failed one succeeds."""

    def _happen_fail(self, index):
        if self.now.minute == 0:
            super()._happen_fail(index)


def cost(world, chips=4):
    """What all attempts of all jobs came to, by the controller's own times."""
    attempts = [attempt for job in world.history for task in job.tasks for attempt in task.attempts]
    return chips * sum((each.finished_at - each.started_at).total_seconds() for each in attempts if each.started_at)


@settings(deadline=None, max_examples=80)
@given(DEATHS)
def test_the_chips_of_a_launch_that_failed_are_counted_with_those_of_the_next(deaths):
    """Whoever pays pays for both, and no driver has to live long enough to remember: the job tells the next one."""
    events = [(at, (what, 0)) for start in (20, 120) for at, what in ((start, "place"), (start + 1, "start"))]
    world = SecondTry([*events, (40, ("fail", 0)), (200, ("succeed", 0)), QUIET])
    driver = Driver(world, plan(rungs=(Rung(2, 4, slices=2),), slice_failures=1, placement_timeout=None), deaths)
    end = driver.run()
    assert end.result is not None
    assert len(world.history) == 4
    assert end.result["chip_seconds"] == round(cost(world), 3)
    assert end.result["chip_seconds"] > 2 * 4 * 79


def test_a_slice_that_was_held_in_vain_has_its_price():
    """It ran, and computed nothing; Iris shows its end only later, so it counts until it was given back."""
    world = ModelController([QUIET])
    driver = Driver(world, plan(rungs=(Rung(2, 4, slices=2),), placement_timeout=3600, hold_timeout=100))
    driver.run(until=lambda driver: len(world.live_jobs()) == 2)
    (first, _) = world.live_jobs()
    first.tasks[0].attempts.append(attempt(0, TaskState.RUNNING))
    first.tasks[0].state, first.tasks[0].worker, first.state = TaskState.ASSIGNED, "worker", JobState.RUNNING
    world._happen_start(0)
    driver.run(until=lambda driver: driver.talk.seen.round.holds == 1)
    spent = driver.talk.seen.round.chip_seconds
    assert 4 * 100 <= spent <= 4 * 120
    driver.run(until=lambda driver: len(world.live_jobs()) == 2)
    assert Round.from_text(world.live_jobs()[0].round).chip_seconds == spent


def test_a_driver_that_dies_between_two_rungs_does_not_take_the_first_ones_end_for_the_launchs():
    """The job was given up, not killed by somebody: the next driver of the same try submits the second rung."""
    world = ModelController([(80, ("place", 0)), (81, ("start", 0)), (90, ("succeed", 0)), QUIET])
    driver = Driver(world, plan(rungs=LADDER))
    driver.run(until=lambda driver: isinstance(driver.calls[-1], Terminate))
    driver.begin()
    assert driver.run().result["rung"] == 1
    assert driver.states() == {"": "KILLED", "-r1": "SUCCEEDED"}


def test_a_ladder_without_machines_ends_with_what_became_of_every_rung():
    """The last rung has its time too, and all jobs are ended."""
    driver = Driver(ModelController([QUIET]), plan(rungs=LADDER))
    error = driver.run().error
    assert isinstance(error, PlacementTimeoutError)
    assert "Before it: was not placed in its time: no free slice" in str(error)
    assert driver.states() == {"": "KILLED", "-r1": "KILLED"}


def test_a_kill_while_a_rung_is_given_up_submits_no_other():
    """The person's word counts more than the timeout that came first."""
    driver = Driver(ModelController([QUIET]), plan(rungs=LADDER))
    driver.run(until=lambda driver: driver.talk.seen.stop is Stop.PLACEMENT)
    driver.talk.interrupt(Stop.KILLED)
    assert isinstance(driver.run().error, JobKilledError)
    assert driver.states() == {"": "KILLED"}


def test_machines_that_no_group_has_are_passed_and_other_refusals_are_not():
    """Only "failed_precondition" speaks of machines."""
    for code, submitted in (("failed_precondition", 2), ("invalid_argument", 1)):
        refusal = SubmissionRejectedError("no scaling group provides device tpu:v9", code=code)
        talk = Conversation(plan(rungs=LADDER), Seen(), clock=lambda: at(0), tell=lambda *_: None)
        submits = []
        for _ in range(20):
            action = talk.next()
            if isinstance(action, Finish):
                break
            submits += [action] if isinstance(action, Submit) else []
            talk.hear(action, refusal if isinstance(action, Submit) else NOTHING)
        assert action == Finish(error=refusal)
        assert [each.round.rung for each in submits] == list(range(submitted))


def test_slices_that_are_held_too_long_are_all_given_back_and_tried_again_later():
    """The second launch has names of its own, and comes after a rest."""
    driver = Driver(ModelController([QUIET]), plan(rungs=SLICES, placement_timeout=3600, hold_timeout=100))
    driver.run(until=lambda driver: len(driver.world.live_jobs()) == 2)
    place(driver.world, "-t1")
    began = driver.world.now
    driver.run(until=lambda driver: not driver.world.live_jobs())
    freed = driver.world.now
    assert 100 <= (freed - began).total_seconds() < 120
    assert driver.states() == {"": "KILLED", "-s1": "KILLED"}
    driver.run(until=lambda driver: len(driver.world.live_jobs()) == 2)
    assert driver.states() == {"": "KILLED", "-s1": "KILLED", "-r1": "PENDING", "-r1-s1": "PENDING"}
    assert driver.world.now - freed >= Round().rest(driver.launch.job.token)
    assert any("they were given back. All slices again, not before" in text for text in driver.told)


@given(st.integers(0, 50), st.text(max_size=9), st.text(max_size=9))
def test_two_launches_that_starve_each_other_do_not_rest_alike(holds, one, other):
    """The rest grows to two minutes at most, and is the same for the same launch."""
    where = replace(Round(), number=holds, holds=holds)
    assert 5 <= where.rest(one).total_seconds() <= 120
    assert where.rest(one) == where.rest(one)
    assert (where.rest(one) != where.rest(other)) or one == other or holds == 0


def test_a_refused_slice_leaves_nothing_behind():
    """All or none: the slice that was submitted before it is terminated."""
    world = ModelController([QUIET])
    talk = Conversation(plan(rungs=SLICES), Seen(), clock=lambda: world.now, tell=lambda *_: None)
    refusal = SubmissionRejectedError("out of budget", code="permission_denied")
    while not isinstance(action := talk.next(), Finish):
        refused = isinstance(action, Submit) and action.slice == 1
        talk.hear(action, refusal if refused else world.perform(action))
    assert action.error is refusal
    assert [job.state for job in world.history] == [JobState.KILLED]


def test_what_an_earlier_try_left_of_a_launch_is_ended_before_the_next_one():
    """One job of two lives on because its driver died: it is neither adopted nor forgotten."""
    world = ModelController([(2, ("place", 0)), (3, ("start", 0)), (9, ("succeed", 0)), QUIET])
    first, second = plan(1, rungs=SLICES), plan(2, rungs=SLICES)
    world.add(first.job.job_id, first.job.token).round = Round().to_text()
    driver = Driver(world, replace(second, earlier=(first.job,)))
    driver.run(until=lambda driver: any(isinstance(call, Submit) for call in driver.calls))
    assert [call.job_id for call in driver.calls if isinstance(call, Terminate)] == [first.job.job_id]
    assert world.jobs[first.job.job_id].state is JobState.KILLED


class Demoting(ModelController):
    """The user's budget is spent by the first slice."""

    demoted = "-s1"

    def bands(self, job_ids):
        return {
            job_id: "batch" if job_id.endswith(self.demoted) else band
            for job_id, band in super().bands(job_ids).items()
        }

    def job_status(self, job_id):
        return replace(super().job_status(job_id), band="interactive")


def test_the_log_warns_of_a_slice_that_iris_runs_in_another_band():
    """What the request says is what was asked for. It is asked once a launch, when all slices run."""
    for demoted, warned in (("-s1", True), ("-s9", False)):
        world = Demoting([(20, ("place", 0)), (50, ("start", 0)), (200, ("succeed", 0)), QUIET])
        world.demoted = demoted
        driver = Driver(world, plan(rungs=SLICES))
        assert driver.run().result is not None
        asked = [call for call in driver.calls if isinstance(call, ReadBands)]
        job_id = driver.launch.job.job_id
        assert asked == [ReadBands((job_id, f"{job_id}-s1"))]
        told = [text for text in driver.told if "budget" in text]
        assert len(told) == warned
        assert all("slice 1 in the band batch instead of interactive" in text for text in told)


def test_nobody_is_warned_who_asked_for_the_band():
    asked = sum_of([status(JobState.RUNNING, job_id=f"/me/job{part}", band="batch") for part in ("", "-s1")])
    before = Seen(job_id="/me/job", status=asked)
    after = replace(before, bands={"/me/job": "batch", "/me/job-s1": "batch"})
    assert list(story(before, after)) == []


def test_a_controller_that_hides_its_scheduler_is_asked_once():
    """The warning is lost, not the launch."""

    class Hides(ModelController):
        def bands(self, job_ids):
            raise SubmissionRejectedError("no", code="permission_denied")

    world = Hides([(20, ("place", 0)), (21, ("start", 0)), (60, ("succeed", 0)), QUIET])
    driver = Driver(world, plan(rungs=SLICES))
    assert driver.run().result is not None
    assert len([call for call in driver.calls if isinstance(call, ReadBands)]) == 1


def test_a_job_tells_the_next_driver_its_round():
    """Iris echoes the variable; a job without it is of the first round."""
    where = Round(3, 1, failures=1, holds=2)
    assert Round.from_text(where.to_text()) == where
    assert Round.from_text("") == Round.from_text("no json") == Round()
