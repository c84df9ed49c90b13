"""Two launches that want more slices than there are: neither starves the other, on the embedded and the real Iris.

A launch that holds one slice of two and waits for the other may wait for one that does the same. So whoever has waited
for `hold_timeout` gives back what it holds, and comes again after a rest of its own length.
"""

import contextlib
import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from airflow.sdk import DAG

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.states import TaskState
from fray_airflow.testing.operator import run_operator

SLICE = ResourceConfig.with_tpu("v5p-16")
PAIR = ResourceConfig.with_tpu("v5p-16", slice_count=2)
HOLD_SECONDS = 3
LATE_SECONDS = 4
"""How much later than the hold a slice may be given back: two looks, the calls, and a busy machine."""
MOST_SECONDS = 85


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0


def operator(user, **arguments):
    # With the rendezvous a slice computes nothing until the other is there.
    usual = {"hold_timeout": HOLD_SECONDS, "command": ["sleep", "1"], "poll_interval": 0.5}
    with DAG(f"pair-{user}", schedule=None):
        return Submit(
            task_id="train",
            iris_conn_id=f"iris_{user}",
            resource_config=PAIR,
            slice_strategy="job_per_slice",
            **{**usual, **arguments},
        )


@dataclass
class Sight:
    """What one look at the Iris found: per user the jobs that hold a slice, and those that live."""

    at: float
    holding: dict[str, int]
    live: dict[str, int]

    def is_part(self, user):
        return self.holding[user] == 1 and self.live[user] == 2


@dataclass
class Watch:
    """Looks at the jobs of the users as often as the Iris answers."""

    target: str
    users: tuple[str, ...]
    sights: list[Sight] = field(default_factory=list)

    @contextlib.contextmanager
    def watching(self):
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool, IrisClient(self.target) as client:
            looks = pool.submit(self._look, client, ended)
            try:
                yield
            finally:
                ended.set()
                looks.result()

    def _look(self, client, ended):
        while not ended.wait(0.1):
            live = [job for job in client.jobs() if not job.state.finished]
            holding = dict.fromkeys(self.users, 0)
            living = dict.fromkeys(self.users, 0)
            for job in live:
                user = job.job_id.split("/")[1]
                if user in living:
                    living[user] += 1
                    holding[user] += any(task.placed for task in client.tasks(job.job_id))
            self.sights.append(Sight(time.monotonic(), holding, living))

    def longest(self, condition):
        """The longest time for which `condition` was seen without a break."""
        longest, since = 0.0, None
        for sight in self.sights:
            since = (since or sight.at) if condition(sight) else None
            longest = max(longest, sight.at - since if since else 0.0)
        return longest


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def taken(target, count):
    """Slices that somebody else has. One user would get a second one only in band BATCH, and lose it."""
    with contextlib.ExitStack() as stack:
        hogs = []
        for number in range(count):
            client = stack.enter_context(IrisClient(target, user=f"hog-{number}-{uuid4().hex[:8]}"))
            sleep = Entrypoint.from_binary("sleep", ["300"])
            hog = client.submit(JobRequest(name="hog", entrypoint=sleep, resources=SLICE))
            stack.callback(hog.terminate)
            hogs.append(hog)
        # Iris may lose a slice for good whose job is terminated within a second of its start.
        settled = timedelta(seconds=3)
        until(lambda: all(_has_run(task, settled) for hog in hogs for task in client.tasks(hog.job_id)))
        yield hogs


def _has_run(task, so_long):
    return task.state is TaskState.RUNNING and task.started_at and datetime.now(UTC) - task.started_at >= so_long


def two_launches(target, deferrable):
    """Both wait for machines, then two of three slices become free: Iris gives each user one of them."""
    users = ("ann", "bob")
    watch = Watch(target, users)
    operators = [operator(user, deferrable=each) for user, each in zip(users, deferrable, strict=True)]
    with taken(target, 3) as hogs, watch.watching(), ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run_operator, each) for each in operators]
        until(lambda: watch.sights and all(watch.sights[-1].live[user] == 2 for user in users))
        for hog in hogs[:2]:
            hog.terminate()
        results = [run.result(MOST_SECONDS) for run in runs]
    with IrisClient(target) as client:
        jobs = [job for job in client.jobs() if job.job_id.split("/")[1] in users]
    return results, watch, jobs


def check(results, watch, jobs):
    assert [run.value["state"] for run in results] == ["SUCCEEDED", "SUCCEEDED"]
    for run in results:
        assert len({row["slice"] for row in run.value["placement"]}) == 2
    # Else nothing was tried here.
    assert watch.longest(lambda sight: all(sight.is_part(user) for user in watch.users)) > 0
    for user in watch.users:
        assert watch.longest(lambda sight, user=user: sight.is_part(user)) < HOLD_SECONDS + LATE_SECONDS
        assert all(sight.live[user] <= 2 for sight in watch.sights), "two launches of one task at once"
    assert all(job.state.finished for job in jobs), "an orphan"
    succeeded = sorted(job.job_id for job in jobs if job.state.name == "SUCCEEDED")
    ours = [run.value["job_id"] for run in results]
    assert succeeded == sorted([*ours, *(f"{job_id}-s1" for job_id in ours)])
    assert {job.state.name for job in jobs} == {"SUCCEEDED", "KILLED"}
    # Whoever held a slice in vain pays for it: chips of two replicas, for the hold at least.
    assert all(run.value["chip_seconds"] > 2 * 4 * (HOLD_SECONDS - 1) for run in results if "-r" in run.value["job_id"])


def test_two_launches_that_each_hold_a_slice_do_not_wait_for_each_other_for_ever(connect):
    """Each gives its slice back in time, nobody has more than one launch, and both succeed in the end."""
    with LocalIris(Fleet.of(tpu={"v5p-16": 3})) as iris:
        for user in ("ann", "bob"):
            connect(iris.target, f"iris_{user}", login=user)
        check(*two_launches(iris.target, (False, True)))


def test_two_launches_on_the_real_iris_do_not_wait_for_each_other_for_ever(real_iris_connect, connect):
    """The same, with budgets that keep the second slice of each in its band: in BATCH it would be evicted for the
    other launch's first."""
    for user in ("ann", "bob"):
        connect(real_iris_connect.target, f"iris_{user}", login=user)
        limit = {"userId": user, "budgetLimit": 0, "maxBand": "PRIORITY_BAND_INTERACTIVE"}
        request = urllib.request.Request(
            f"{real_iris_connect.target}/iris.cluster.ControllerService/SetUserBudget",
            json.dumps(limit).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert reply.status == 200
    check(*two_launches(real_iris_connect.target, (False, True)))


@pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])
def test_the_real_iris_runs_the_second_slice_of_a_spent_budget_in_batch(real_iris_connect, connect, capsys, deferrable):
    """The first slice spends it. The request's echo keeps the band that was asked for, so the scheduler is asked."""
    # A user who has run nothing yet.
    user = f"eve-{uuid4().hex[:8]}"
    connect(real_iris_connect.target, f"iris_{user}", login=user)
    with (
        taken(real_iris_connect.target, 3) as hogs,
        ThreadPoolExecutor(1) as pool,
        IrisClient(real_iris_connect.target) as client,
    ):
        run = pool.submit(run_operator, operator(user, hold_timeout=60, command=["sleep", "3"], deferrable=deferrable))
        until(lambda: len(client.jobs(f"/{user}/")) == 2)
        for slices, hog in enumerate(hogs[:2], start=1):
            hog.terminate()
            until(lambda slices=slices: _placed_jobs(client, f"/{user}/") == slices)
        job_id = run.result(MOST_SECONDS).value["job_id"]
        echo = [client.job_status(name).band for name in (job_id, f"{job_id}-s1")]
    assert echo == ["interactive", "interactive"]
    assert capsys.readouterr().out.count("Iris runs slice 1 in the band batch instead of interactive") == 1


def _placed_jobs(client, prefix):
    return sum(any(task.placed for task in client.tasks(job.job_id)) for job in client.jobs(prefix))
