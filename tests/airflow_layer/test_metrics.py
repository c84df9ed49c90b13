"""What a StatsD server receives of tasks: real bytes on a real socket, through Airflow's own client."""

import re
import socket
import threading
import time
from collections import Counter

import pytest
from airflow.sdk import DAG
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability.stats import Stats

from fray_airflow import ResourceConfig, errors
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing.operator import run_operator

both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(**{"task_id": "train", "command": ["true"], **arguments})


class Received:
    """What came to a StatsD server: `{name: [(value, kind, tags), ...]}`."""

    def __init__(self, server):
        self._server = server

    def __call__(self):
        found = {}
        for line in self.lines():
            name, tags, value, kind = re.fullmatch(r"airflow\.([\w.]+)((?:,[^:]+)?):([-\d.]+)\|(\w+)", line).groups()
            found.setdefault(name, []).append((float(value), kind, dict(re.findall(r",(\w+)=([^,]*)", tags))))
        return found

    def lines(self):
        # Sent to the loopback before the task returned: what is there is all there is.
        lines = []
        while True:
            try:
                lines += self._server.recv(65536, socket.MSG_DONTWAIT).decode().splitlines()
            except BlockingIOError:
                return lines


@pytest.fixture
def statsd(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        options = {"ON": "True", "HOST": "127.0.0.1", "PORT": str(server.getsockname()[1]), "PREFIX": "airflow"}
        for name, value in {**options, "INFLUXDB_ENABLED": "True"}.items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__STATSD_{name}", value)
        client = stats_utils.get_stats_factory()()
        # As a task runner begins.
        Stats.initialize(factory=lambda: client, export_legacy_names=True)
        yield Received(server)
        client.statsd.close()
    Stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


@both_modes
def test_a_job_that_succeeded_is_told_once(scripted, statsd, deferrable):
    """How long it waited and ran, and that it was launched, by connection, machines and state."""
    scripted.script("*", Outcome.succeed(seconds=1))
    value = run_operator(submit(resource_config=ResourceConfig.with_tpu("v5p-16"), deferrable=deferrable)).value
    received = statsd()
    tags = {"conn_id": "iris_default", "device": "v5p-16", "state": "SUCCEEDED"}
    assert received == {
        "iris.job.launches": [(1, "c", tags)],
        "iris.job.queue_duration": [(pytest.approx(1000 * value["queue_seconds"]), "ms", tags)],
        "iris.job.run_duration": [(pytest.approx(1000 * value["run_seconds"]), "ms", tags)],
    }
    assert received["iris.job.run_duration"][0][0] >= 900


@both_modes
def test_a_job_that_failed_is_told_with_its_preemptions(scripted, statsd, deferrable):
    """Iris made good for two of them, and the third attempt failed."""
    scripted.script("*", Outcome.preempt(times=2), Outcome.fail(3, seconds=0.2))
    with pytest.raises(errors.JobFailedError):
        run_operator(submit(resource_config={"cpu": 1}, deferrable=deferrable))
    received = statsd()
    tags = {"conn_id": "iris_default", "device": "cpu", "state": "FAILED"}
    assert received["iris.job.preemptions"] == [(2, "c", tags)]
    assert received["iris.job.failures"] == [(1, "c", tags)]
    assert received["iris.job.launches"] == [(1, "c", tags)]
    assert len(received["iris.job.run_duration"]) == 1


def test_launches_down_a_ladder_are_counted_together(scripted, statsd):
    """The state and the machines are those of the last one."""
    scripted.script("*", Outcome.stay_pending(), Outcome.succeed())
    run_operator(
        submit(resource_config={"tpu": "v5p-16"}, fallback_resource_configs=[{"tpu": "v5p-8"}], placement_timeout=0.5)
    )
    ((count, _, tags),) = statsd()["iris.job.launches"]
    assert (count, tags["device"], tags["state"]) == (2, "v5p-8", "SUCCEEDED")


@both_modes
def test_an_outage_is_counted_once_however_long_it_takes(scripted, statsd, deferrable):
    """Nothing else changes: the job and its durations are those of any other."""
    scripted.script("*", Outcome.succeed(seconds=1))
    outage = threading.Thread(target=away_after_launch, args=(scripted,))
    outage.start()
    run_operator(submit(deferrable=deferrable))
    outage.join()
    received = statsd()
    assert [count for count, _, _ in received["iris.job.outages"]] == [1]
    assert len(received["iris.job.run_duration"]) == 1


def test_a_try_that_only_stops_to_watch_leaves_the_durations_to_the_next(scripted, statsd):
    """Together, both tries tell of one launch and of one job."""
    scripted.script("*", Outcome.succeed(seconds=2))
    outage = threading.Thread(target=away_after_launch, args=(scripted,), kwargs={"seconds": 4})
    outage.start()
    with pytest.raises(errors.IrisUnavailableError):
        run_operator(submit(retries=1, outage_tolerance=0.3))
    outage.join()
    first = statsd()
    assert set(first) == {"iris.job.launches", "iris.job.outages"}
    run_operator(submit(retries=1), try_number=2)
    assert set(statsd()) == {"iris.job.queue_duration", "iris.job.run_duration"}


def test_a_job_that_nobody_waits_for_counts_its_launch_only(scripted, statsd):
    """Its end is not known."""
    scripted.script("*", Outcome.hang())
    run_operator(submit(wait_for_completion=False))
    assert set(statsd()) == {"iris.job.launches"}


def test_a_task_that_has_no_job_sends_nothing(connect, statsd):
    """There is nothing to tell of a controller that was never reached."""
    connect("grpc://127.0.0.1:9")
    with pytest.raises(errors.IrisUnavailableError):
        run_operator(submit())
    assert statsd() == {}


def test_no_metric_is_about_a_single_job(scripted, statsd):
    """The number of series stays that of connections, machines and states, whatever runs."""
    scripted.script("*", Outcome.succeed())
    jobs = [run_operator(submit(task_id=f"task-{number}")).value["job_id"] for number in range(2)]
    lines = statsd.lines()
    assert max(Counter(line.partition(":")[0] for line in lines).values()) == 2
    assert not [line for line in lines for job_id in jobs if job_id.split("/")[2] in line or "task-" in line]


def test_a_backend_that_fails_fails_no_task(scripted, caplog):
    """The log says that metrics were lost, and why."""

    class Broken(NoStatsLogger):
        @classmethod
        def incr(cls, *args, **options):
            raise OSError("the agent is gone")

    scripted.script("*", Outcome.succeed())
    Stats.initialize(factory=Broken, export_legacy_names=True)
    try:
        assert run_operator(submit()).value["state"] == "SUCCEEDED"
    finally:
        Stats.initialize(factory=NoStatsLogger, export_legacy_names=True)
    assert "could not be sent" in caplog.text
    assert "the agent is gone" in caplog.text


def away_after_launch(iris, **how_long):
    deadline = time.monotonic() + 20
    while not iris.calls["LaunchJob"] and time.monotonic() < deadline:
        time.sleep(0.01)
    iris.away(**how_long or {"polls": 12})
