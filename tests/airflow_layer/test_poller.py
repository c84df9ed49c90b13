"""Many deferred tasks share one poller: what a thousand of them cost, and what they notice."""

import asyncio
import contextlib
import contextvars
import logging
import subprocess
import sys
import time
from datetime import timedelta

import pytest
from waiting_jobs import event_of, launch, meddle, trigger_of, until, watching

from fray_airflow.errors import IrisUnavailableError, JobNotFoundError
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.local.access import Access
from fray_airflow.logs import LogCursor
from fray_airflow.triggers import poller
from fray_airflow.triggers.bulk import MOST_CALLS, ask_states
from fray_airflow.triggers.job_state import IrisJobStateTrigger
from fray_airflow.triggers.subscription import Subscription


@pytest.fixture
def roomy(connect):
    """Room for a hundred jobs at once, behind `iris_default`."""
    with LocalIris(Fleet.of(cpu=100), run="script") as iris:
        connect(iris.target)
        yield iris


def pollers():
    return poller._pollers.get(asyncio.get_running_loop(), [])


@contextlib.asynccontextmanager
async def subscribed():
    subscription = await Subscription.open("iris_default")
    try:
        yield subscription
    finally:
        await subscription.close()


async def test_a_thousand_waiting_jobs_cost_two_calls_per_interval_at_most(roomy):
    """One, nearly: a batch may come a tenth of its time early. An end is seen within an interval all the same."""
    count, interval, intervals = 1000, 1.0, 6
    roomy.script("wait*", *[Outcome.stay_pending()] * count)
    job_ids = launch(roomy, count)
    async with watching([trigger_of(job_id, poll_interval=interval) for job_id in job_ids]) as tasks:
        await until(lambda: roomy.calls["GetJobStatus"] >= count and roomy.calls["ListTasks"] >= count)
        await asyncio.sleep(2 * interval)
        before = roomy.calls.copy()
        await asyncio.sleep(intervals * interval)
        assert (roomy.calls - before).total() <= 2 * intervals
        assert (roomy.calls - before)["GetJobState"] >= 1
        assert roomy.calls["FetchLogs"] == 0
        assert len(pollers()) == 1
        with IrisClient(roomy.target) as client:
            client.terminate(job_ids[500])
        event = await asyncio.wait_for(tasks[500], 20)
        assert event["error"]["kind"] == "JobKilledError"
        assert [task for task in tasks if task.done()] == [tasks[500]]


async def test_whenever_they_began_they_come_to_share_their_calls(roomy):
    """Five that began at different moments are looked at in one call an interval, soon after."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 5)
    interval, looks = 1.0, []

    async def look_on(job_id):
        async with subscribed() as subscription:
            while True:
                await subscription.job_status(job_id)
                await subscription.wait(interval)

    for job_id in launch(roomy, 5):
        looks.append(asyncio.create_task(look_on(job_id)))
        await asyncio.sleep(0.2)
    await asyncio.sleep(2 * interval)
    before = roomy.calls["GetJobState"]
    await asyncio.sleep(5 * interval)
    assert 4 <= roomy.calls["GetJobState"] - before <= 7
    for look in looks:
        look.cancel()
    await asyncio.wait(looks)


async def test_the_jobs_of_one_launch_are_asked_for_in_one_call(roomy):
    """As those that a launch has for its slices."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 3)
    job_ids = launch(roomy, 3)
    async with subscribed() as subscription:
        for _ in range(4):
            states = [(await subscription.job_status(job_id)).state.name for job_id in job_ids]
            assert states == ["PENDING"] * 3
            await subscription.wait(0.2)
    assert roomy.calls["GetJobState"] == 4


async def test_more_jobs_than_one_call_takes_are_asked_for_in_chunks(roomy, monkeypatch):
    """Each tells of its own part."""
    monkeypatch.setattr("fray_airflow.triggers.bulk.CHUNK_IDS", 10)
    roomy.script("wait*", *[Outcome.stay_pending()] * 25)
    job_ids = launch(roomy, 25)
    async with subscribed() as subscription:
        answers, refused = await ask_states(subscription._poller.client, [*job_ids, "/airflow/nobody"])
    assert {job_id: str(answers[job_id]) for job_id in job_ids} == dict.fromkeys(job_ids, "PENDING")
    assert (answers["/airflow/nobody"], refused) == (None, set())
    assert roomy.calls["GetJobState"] == 3


async def test_the_reason_why_jobs_wait_is_read_for_all_of_them_together(roomy, monkeypatch):
    """By ListJobs, once their details are a minute old, which is no time here."""
    monkeypatch.setattr("fray_airflow.triggers.polled_job.DETAIL_SECONDS", 0.5)
    monkeypatch.setattr("fray_airflow.local.pending.AUTOSCALER_SPEAKS_AFTER_MS", 1e9)
    roomy.script("wait*", *[Outcome.stay_pending()] * 50)
    job_ids = launch(roomy, 50)
    triggers = [trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]
    async with watching(triggers):
        await until(lambda: roomy.calls["GetJobStatus"] >= 50)
        before = roomy.calls["GetJobStatus"]
        monkeypatch.setattr("fray_airflow.local.pending.AUTOSCALER_SPEAKS_AFTER_MS", 0)
        await until(lambda: all(any("Autoscaler:" in text for _, text in trigger.told) for trigger in triggers))
        assert roomy.calls["ListJobs"] >= 1
        assert roomy.calls["GetJobStatus"] == before


async def test_young_jobs_are_looked_at_soon_together(roomy):
    """Not only after their interval of a minute."""
    roomy.script("wait*", *[Outcome.succeed(seconds=2)] * 20)
    triggers = [trigger_of(job_id, poll_interval=60, age=timedelta()) for job_id in launch(roomy, 20)]
    started = time.monotonic()
    async with watching(triggers) as tasks:
        events = await asyncio.gather(*tasks)
    assert [event["result"]["state"] for event in events] == ["SUCCEEDED"] * 20
    assert time.monotonic() - started < 30


async def test_an_outage_is_told_to_each_task_and_costs_one_caller(roomy):
    """Four tries for a batch, and no others for any of the jobs."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 30)
    triggers = [trigger_of(job_id, poll_interval=0.5) for job_id in launch(roomy, 30)]
    async with watching(triggers) as tasks:
        await until(lambda: roomy.calls["ListTasks"] >= 30)
        before = roomy.calls.copy()
        roomy.away(polls=6)
        await until(lambda: all("Iris answers again." in (text for _, text in each.told) for each in triggers))
        assert all(any(text.startswith("Iris does not answer") for text in each.warnings) for each in triggers)
        assert set(roomy.calls - before) - {"ListJobs"} == {"GetJobState"}
        assert not any(task.done() for task in tasks)


async def test_an_outage_that_lasts_ends_the_watching(roomy):
    """Each task fails as it would have alone."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 3)
    triggers = [trigger_of(job_id, poll_interval=0.5, outage_tolerance=1) for job_id in launch(roomy, 3)]
    async with watching(triggers) as tasks:
        await until(lambda: roomy.calls["ListTasks"] >= 3)
        roomy.away(polls=1000)
        for task in tasks:
            event = await asyncio.wait_for(task, 60)
            assert event["error"]["kind"] == "IrisUnavailableError"
            assert "outage_tolerance" in event["error"]["message"]


async def test_a_job_that_iris_cannot_be_asked_for_does_not_blind_the_others(roomy, monkeypatch, caplog):
    """The batch is halved until the id is found. It is asked for alone from then on, and its end is seen too."""
    side = meddle(monkeypatch, roomy)
    roomy.script("wait*", *[Outcome.hang()] * 60)
    job_ids = launch(roomy, 60)
    side.poison = job_ids[17]
    async with watching([trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]) as tasks:
        await until(lambda: roomy.calls["ListTasks"] >= 60)
        searched = roomy.calls["GetJobState"]
        with IrisClient(roomy.target) as client:
            for job_id in (job_ids[3], job_ids[17]):
                client.terminate(job_id)
        done = await asyncio.wait_for(asyncio.gather(tasks[3], tasks[17]), 30)
        assert [event["error"]["kind"] for event in done] == ["JobKilledError"] * 2
    assert searched <= 60
    assert job_ids[17] in caplog.text


async def test_a_controller_that_fails_for_every_batch_is_not_searched_for_ever(roomy):
    """Whatever is wrong there, it is not the ids: the tasks hear of it, and go on when it passes."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 64)
    triggers = [trigger_of(job_id, poll_interval=0.5) for job_id in launch(roomy, 64)]
    async with watching(triggers):
        await until(lambda: roomy.calls["ListTasks"] >= 64)
        before = roomy.calls["GetJobState"]
        roomy.fault("GetJobState", code="internal", times=41)
        await until(lambda: all("Iris answers again." in (text for _, text in each.told) for each in triggers))
        assert roomy.calls["GetJobState"] - before <= 41 + 20


async def test_many_jobs_that_iris_cannot_be_asked_for_blind_nobody(roomy, monkeypatch):
    """Those that no call could tell of ask for themselves; none hears of an error that is not its own."""
    side = meddle(monkeypatch, roomy)
    roomy.script("wait*", *[Outcome.stay_pending()] * 128)
    job_ids = launch(roomy, 128)
    side.poison, side.code = "5", "invalid_argument"
    async with subscribed() as subscription:
        answers, refused = await ask_states(subscription._poller.client, job_ids)
        state = (await subscription.job_status(job_ids[55])).state.name
    assert roomy.calls["GetJobState"] == MOST_CALLS
    assert answers.keys() == set(job_ids)
    assert {str(answer) for answer in answers.values()} == {"PENDING", "None"}
    assert refused < {job_id for job_id in job_ids if "5" in job_id}
    assert state == "PENDING"


async def test_a_controller_without_the_call_for_many_is_asked_job_by_job(roomy):
    """As an old one might be."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 2)
    job_ids = launch(roomy, 2)
    roomy.fault("GetJobState", code="unimplemented", times=1000)
    async with subscribed() as subscription:
        for _ in range(3):
            for job_id in job_ids:
                assert (await subscription.job_status(job_id)).state.name == "PENDING"
            await subscription.wait(0.1)
    assert roomy.calls["GetJobStatus"] == 6


async def test_a_controller_that_is_away_is_asked_less_and_less_often(roomy):
    """However short the interval is; and it is told of as soon as it is back."""
    roomy.script("wait*", Outcome.stay_pending())
    (job_id,) = launch(roomy, 1)
    looks = 0
    async with subscribed() as subscription:
        await subscription.job_status(job_id)
        roomy.away(seconds=5)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            await subscription.wait(0.1)
            with contextlib.suppress(IrisUnavailableError):
                await subscription.job_status(job_id)
            looks += 1
        await subscription.wait(0.1)
        assert (await subscription.job_status(job_id)).state.name == "PENDING"
    assert 2 <= looks <= 7


async def test_a_job_that_iris_does_not_know_is_not_found(roomy):
    """As a call of its own tells, which the batch leads to."""
    async with subscribed() as subscription:
        for _ in range(2):
            with pytest.raises(JobNotFoundError, match="/airflow/nobody"):
                await subscription.job_status("/airflow/nobody")
            await subscription.wait(0.1)
    assert (roomy.calls["GetJobState"], roomy.calls["GetJobStatus"]) == (2, 2)


async def test_a_slow_controller_delays_only_its_own_jobs(roomy, connect, monkeypatch):
    """Neither the other's jobs nor the event loop wait for it."""
    with LocalIris(Fleet.of(cpu=2), run="script") as slow:
        connect(slow.target, conn_id="iris_slow")
        slow.script("wait*", Outcome.stay_pending())
        slowed = [trigger_of(job_id, conn_id="iris_slow", poll_interval=0.5) for job_id in launch(slow, 1)]
        meddle(monkeypatch, slow).delay = {"*": 5}
        roomy.script("wait*", *[Outcome.succeed(seconds=1)] * 10)
        quick = [trigger_of(job_id, poll_interval=0.5) for job_id in launch(roomy, 10)]
        async with watching(slowed), watching(quick) as tasks:
            await until(lambda: slow.calls["GetJobState"] + len(pollers()) >= 2)
            await asyncio.wait_for(asyncio.gather(*tasks), 30)
            assert slow.calls["ListTasks"] == 0
            assert len(pollers()) == 1


async def test_lines_go_to_the_task_of_their_job(roomy, monkeypatch):
    """Eight logs are read at a time, and each task gets its own lines, all of them, in order."""
    side = meddle(monkeypatch, roomy)
    side.delay = {"FetchLogs": 0.05}
    for number in range(40):
        roomy.script(f"talk-{number}", Outcome.succeed([f"{number}.{line}" for line in range(20)], seconds=3))
    job_ids = launch(roomy, 40, name="talk")
    triggers = [trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]
    async with watching(triggers) as tasks:
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
    for number, trigger in enumerate(triggers):
        assert trigger.lines == [f"[replica 0] {number}.{line}" for line in range(20)]
    assert 2 <= side.most["FetchLogs"] <= 8


async def test_a_slow_log_service_delays_no_look(roomy, monkeypatch):
    """A page that takes long is waited for in the background; the end of its job is seen meanwhile."""
    meddle(monkeypatch, roomy).delay = {"FetchLogs": 4}
    roomy.script("wait*", *[Outcome.hang(["one line"])] * 20)
    job_ids = launch(roomy, 20)
    triggers = [trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]
    async with watching(triggers):
        await until(lambda: roomy.calls["ListTasks"] >= 20)
        asked = time.monotonic()
        with IrisClient(roomy.target) as client:
            client.terminate(job_ids[19])
        await until(lambda: any(text.startswith("KILLED") for _, text in triggers[19].told))
        assert time.monotonic() - asked < 3


async def test_a_job_that_prints_much_leaves_the_others_their_share(roomy, monkeypatch):
    """With one reader for all, who waits is next after each page."""
    monkeypatch.setattr(poller, "LOGS_AT_ONCE", 1)
    roomy.script("much-0", Outcome.hang([f"line {number}" for number in range(5000)]))
    roomy.script("little-0", Outcome.hang(["a line"]))
    jobs = [*launch(roomy, 1, name="much"), *launch(roomy, 1, name="little")]
    pages = []

    async def read(job_id):
        async with subscribed() as subscription:
            cursor, full = LogCursor(job_id), True
            while full:
                page = await subscription.logs(job_id, cursor)
                cursor, full = page.cursor, page.full
                pages.append((job_id, len(page.lines)))

    with IrisClient(roomy.target) as client:
        for job_id, lines in zip(jobs, (1000, 1), strict=True):
            await until(lambda job_id=job_id, lines=lines: len(client.logs(job_id).lines) == lines)
    await asyncio.gather(*map(read, jobs))
    assert (jobs[1], 1) in pages[:3]
    assert sum(count for job_id, count in pages if job_id == jobs[0]) == 5000


async def test_the_last_lines_are_not_missed_by_a_read_that_began_before_the_end(roomy, monkeypatch):
    """Its page says nothing of them, so that the log is read once more."""
    side = meddle(monkeypatch, roomy)
    side.lag = {"FetchLogs": 2}
    roomy.script("wait*", Outcome.succeed(["the last line"], seconds=1.5))
    (job_id,) = launch(roomy, 1)
    async with subscribed() as subscription:
        while not (status := await subscription.job_status(job_id)).state.finished:
            page = await subscription.logs(job_id, LogCursor(job_id))
            assert page.lines == ()
            await subscription.wait(0.2)
        lines = []
        while not lines:
            page = await subscription.logs(job_id, LogCursor(job_id))
            lines = [line.text for line in page.lines]
    assert status.state.name == "SUCCEEDED"
    assert lines == ["the last line"]
    assert side.most["FetchLogs"] == 1


async def test_a_running_job_that_prints_nothing_is_read_seldom(roomy):
    """Its state is looked at as often as before."""
    roomy.script("wait*", *[Outcome.hang()] * 10)
    triggers = [trigger_of(job_id, poll_interval=0.25) for job_id in launch(roomy, 10)]
    async with watching(triggers):
        await until(lambda: roomy.calls["GetJobState"] >= 24)
        assert roomy.calls["FetchLogs"] < 10 * 8


async def test_deferred_sensors_share_the_calls_too(roomy):
    """Thirty of them ask as often as one."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 30)
    job_ids = launch(roomy, 30)
    async with watching([IrisJobStateTrigger("iris_default", job_id, "finished", 0.5) for job_id in job_ids]) as tasks:
        await until(lambda: roomy.calls["GetJobState"] >= 6)
        assert roomy.calls["GetJobStatus"] <= 2 * 30
        with IrisClient(roomy.target) as client:
            client.terminate(job_ids[7])
        event = await asyncio.wait_for(tasks[7], 20)
    assert event["job"] == {"job_id": job_ids[7], "state": "KILLED"}


async def test_workers_are_listed_once_for_many_jobs(roomy):
    """Their places are told to all."""
    roomy.script("wait*", *[Outcome.hang()] * 30)
    job_ids = launch(roomy, 30)
    with IrisClient(roomy.target) as client:
        await until(lambda: all(state.name == "RUNNING" for state in client.job_states(job_ids).values()))
    triggers = [trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]
    async with watching(triggers):
        await until(lambda: all(any(text.startswith("On worker") for _, text in each.told) for each in triggers))
    assert roomy.calls["ListWorkers"] <= 3


async def test_a_token_that_is_replaced_moves_all_to_a_new_client(connect):
    """The connection is read again, and the old poller ends."""
    with LocalIris(Fleet.of(cpu=30), run="script", token="old", role="admin") as iris:
        iris.script("wait*", *[Outcome.hang()] * 20)
        iris.cluster.access = Access(None, "airflow", "admin")
        job_ids = launch(iris, 20)
        iris.cluster.access = Access("old", "airflow", "admin")
        connect(iris.target, password="old")
        async with watching([trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]) as tasks:
            await until(lambda: iris.calls["ListTasks"] >= 20)
            connect(iris.target, password="new")
            iris.cluster.access = Access("new", "airflow", "admin")
            await until(lambda: [each.settings.arguments["token"] for each in pollers()] == ["new"])
            with IrisClient(iris.target, token="new") as client:
                for job_id in job_ids:
                    client.terminate(job_id)
            events = await asyncio.wait_for(asyncio.gather(*tasks), 30)
    assert {event["error"]["kind"] for event in events} == {"JobKilledError"}


async def test_the_last_trigger_ends_the_poller(roomy):
    """Its task and its client are gone, and the next trigger makes another."""
    roomy.script("wait*", *[Outcome.stay_pending()] * 2)
    first, second = (trigger_of(job_id, poll_interval=0.5) for job_id in launch(roomy, 2))
    async with watching([first]):
        await until(lambda: roomy.calls["ListTasks"] >= 1)
        async with watching([second]):
            await until(lambda: roomy.calls["ListTasks"] >= 2)
            (shared,) = pollers()
            assert shared.members == 2
        assert pollers() == [shared]
    assert pollers() == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_each_event_loop_has_a_poller_of_its_own(roomy):
    """dag.test runs every trigger in a new one."""
    roomy.script("wait*", *[Outcome.succeed()] * 2)
    for job_id in launch(roomy, 2):
        event = asyncio.run(event_of(trigger_of(job_id, poll_interval=0.5)))
        assert event["result"]["state"] == "SUCCEEDED"


_FORK = """
import asyncio, os, sys, warnings
from fray_airflow.hooks import IrisHook
from fray_airflow.triggers.poller import join
from fray_airflow.triggers.subscription import Subscription

hook = IrisHook("iris_default")
settings = hook.settings()

async def state():
    subscription = Subscription(hook, await join(settings))
    try:
        await subscription.job_status(sys.argv[1])
        await subscription.wait(0.1)
        return (await subscription.job_status(sys.argv[1])).state.name
    finally:
        await subscription.close()

async def parent():
    # Left open: the child inherits a poller that is in use.
    subscription = Subscription(hook, await join(settings))
    await subscription.job_status(sys.argv[1])
    await subscription.wait(0.1)
    print((await subscription.job_status(sys.argv[1])).state.name, flush=True)
    asyncio.get_running_loop().stop()

loop = asyncio.new_event_loop()
task = loop.create_task(parent())
loop.run_forever()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    os._exit(0 if asyncio.run(state()) == "PENDING" else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


def test_a_fork_makes_a_poller_of_its_own(roomy, connect):
    """A child of a process that watches does not wait for its parent's poller, which has no loop there."""
    roomy.script("wait*", Outcome.stay_pending())
    connect(roomy.url)
    arguments = [sys.executable, "-c", _FORK, *launch(roomy, 1)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["PENDING", "0"], done.stderr


async def test_the_poller_logs_outside_every_task(roomy, monkeypatch):
    """Airflow sends a line to the task that its context names: the poller's are the triggerer's own."""
    task = contextvars.ContextVar("task", default="triggerer")
    logged = []

    class Seen(logging.Handler):
        def emit(self, record):
            logged.append((task.get(), record.getMessage()))

    handler = Seen()
    logging.getLogger("fray_airflow.triggers.bulk").addHandler(handler)
    try:
        side = meddle(monkeypatch, roomy)
        roomy.script("wait*", *[Outcome.stay_pending()] * 3)
        job_ids = launch(roomy, 3)
        side.poison = job_ids[1]
        task.set("the first task")
        async with watching([trigger_of(job_id, poll_interval=0.5) for job_id in job_ids]):
            await until(lambda: logged)
    finally:
        logging.getLogger("fray_airflow.triggers.bulk").removeHandler(handler)
    assert {where for where, _ in logged} == {"triggerer"}
