"""What a function returns, sent by the shipped runner and read by the client, over a local Iris's log service."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fray_airflow import Entrypoint
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import AsyncIrisClient, IrisClient, convert_entrypoint
from fray_airflow.iris.shipped import push_result
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.results import ResultOptions, read_envelope, unpack

JOB_ID = "/me/job"


@pytest.fixture
def iris():
    with LocalIris(Fleet.of(cpu=1), run="script") as iris:
        yield iris


@dataclass
class Worker:
    """What a worker does with the job of a function: its files, its variables, its command."""

    iris: LocalIris
    workdir: Path

    def run(self, function, *args, replica=0, attempt=0, env=(), **options):
        runtime = convert_entrypoint(Entrypoint.from_callable(function, args, result=ResultOptions(**options)))
        for name, content in runtime.workdir_files.items():
            path = self.workdir / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        variables = {
            "PATH": os.environ["PATH"],
            "IRIS_WORKDIR": str(self.workdir),
            "IRIS_PYTHON": sys.executable,
            "IRIS_CONTROLLER_URL": self.iris.url,
            "IRIS_TASK_ID": f"{JOB_ID}/{replica}:{attempt}",
            **dict(env),
        }
        return subprocess.run(
            list(runtime.run_command.argv), env=variables, text=True, capture_output=True, check=False
        )

    def came(self, replica=0, attempt=0):
        """The envelope, None if there is none."""
        with IrisClient(self.iris.url) as client:
            texts = client.result_entries(JOB_ID, replica, attempt)
        return read_envelope(texts[-1]) if texts else None


@pytest.fixture
def worker(iris, tmp_path):
    return Worker(iris, tmp_path)


def identity(value):
    return value


@pytest.mark.parametrize("value", [None, 0, "ü\n\u0000", [1, [2.5, True]], {"a": {"b": None}}], ids=repr)
def test_a_json_value_comes_back_equal(worker, value):
    """None too: it is a result, and not the absence of one."""
    done = worker.run(lambda: value)
    assert done.returncode == 0, done.stderr
    assert worker.came() == {"v": 1, "encoding": "json", "value": value}


def test_a_tuple_comes_back_as_a_list(worker):
    """JSON has no tuples, and neither has an XCom in other backends."""
    assert worker.run(lambda: (1, 2)).returncode == 0
    assert unpack(worker.came(), ResultOptions()) == [1, 2]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "result is nan, which JSON does not have"),
        ({"loss": [1.0, math.inf]}, "result['loss'][1] is inf, which JSON does not have"),
        ({"a": {1: "x"}}, "result['a'] has the key 1, and JSON's keys are texts"),
        ({"run": {1, 2}}, "result['run'] is a builtins.set, which is not JSON"),
    ],
    ids=["nan", "infinity", "key", "set"],
)
def test_what_is_not_json_fails_the_task_and_says_where_it_is(worker, value, words):
    """Nothing is sent, and the exit code is not 0: a job that succeeded always has its result."""
    done = worker.run(identity, value)
    assert done.returncode == 1
    assert words in done.stderr
    assert 'result="pickle"' in done.stderr
    assert "Traceback" not in done.stderr
    assert worker.came() is None


def test_a_value_that_contains_itself_fails_the_task(worker):
    """Without a stack overflow in the log."""
    loop = []
    loop.append(loop)
    done = worker.run(identity, loop)
    assert done.returncode == 1
    assert "nested too deeply, or contains itself" in done.stderr


def test_pickle_lets_through_what_is_not_json(worker):
    """Only what is not: JSON values stay JSON."""
    options = ResultOptions("pickle")
    assert worker.run(lambda: {1, 2}, encoding="pickle").returncode == 0
    assert worker.came()["encoding"] == "pickle"
    assert unpack(worker.came(), options) == {1, 2}
    assert worker.run(lambda: [1], attempt=1, encoding="pickle").returncode == 0
    assert worker.came(attempt=1)["encoding"] == "json"


def test_a_pickle_is_not_opened_unless_the_author_allowed_it(worker):
    """To unpickle is to run code that came from elsewhere."""
    worker.run(lambda: {1}, encoding="pickle")
    with pytest.raises(ValueError, match="'pickle' was not asked for"):
        unpack(worker.came(), ResultOptions("json"))


def test_a_pickle_that_needs_what_is_not_here_says_so():
    """The cluster may have modules that the Airflow worker lacks."""
    envelope = {"v": 1, "encoding": "pickle", "value": "Y25vX3N1Y2gKWAou"}
    with pytest.raises(ValueError, match=r"cannot be unpickled here \(ModuleNotFoundError: No module named 'no_such'"):
        unpack(envelope, ResultOptions("pickle"))


def test_a_result_that_cannot_be_pickled_fails_the_task(worker):
    """A generator is neither JSON nor a pickle."""
    done = worker.run(lambda: (n for n in ()), encoding="pickle")
    assert done.returncode == 1
    assert "the result cannot be pickled" in done.stderr


@pytest.mark.parametrize("encoding", ["json", "pickle"])
def test_a_result_that_is_too_large_fails_the_task_and_names_both_sizes(worker, encoding):
    """Storage is the place for it."""
    value = "x" * 98 if encoding == "json" else b"x" * 98
    assert worker.run(identity, value, encoding=encoding, max_bytes=1000).returncode == 0
    done = worker.run(identity, value * 20, encoding=encoding, max_bytes=1000, attempt=1)
    assert done.returncode == 1
    assert "more than max_result_bytes=1000" in done.stderr
    assert ("the result has 1962 bytes as JSON" in done.stderr) is (encoding == "json")
    assert worker.came(attempt=1) is None


def test_a_result_of_a_mebibyte_fits(worker):
    """The quotes count."""
    assert worker.run(lambda: "x" * (1024 * 1024 - 2)).returncode == 0
    assert len(worker.came()["value"]) == 1024 * 1024 - 2
    assert worker.run(lambda: "x" * (1024 * 1024 - 1), attempt=1).returncode == 1


def test_an_exception_is_printed_and_sent(worker):
    """The runner's own frames are left out of what is sent."""

    def fail():
        raise ValueError("no luck")

    done = worker.run(fail)
    assert done.returncode == 1
    assert "ValueError: no luck" in done.stderr
    error = worker.came()["error"]
    assert (error["type"], error["message"]) == ("ValueError", "no luck")
    assert "in fail" in error["traceback"]
    assert "run_callable.py" not in error["traceback"]


def test_an_exception_that_cannot_be_sent_is_still_the_tasks_failure(worker):
    """The log has it."""

    def fail():
        raise ValueError("no luck")

    worker.iris.fault("PushLogs", code="permission_denied")
    done = worker.run(fail)
    assert done.returncode == 1
    assert "ValueError: no luck" in done.stderr
    assert "could not be sent to Airflow" in done.stderr


@pytest.mark.parametrize(("code", "sent"), [(0, True), (None, True), (7, False)])
def test_an_exit_of_the_functions_own(worker, code, sent):
    """0 is a return of nothing; any other is the task's exit code, which `no_retry_exit_codes` may name."""
    assert worker.run(sys.exit, code).returncode == (code or 0)
    assert worker.came() == ({"v": 1, "encoding": "json", "value": None} if sent else None)


def test_only_replica_0_sends_unless_all_are_asked(worker):
    """What others return may even be no JSON."""
    assert worker.run(lambda: math.nan, replica=1).returncode == 0
    assert worker.came(replica=1) is None
    assert worker.run(lambda: 5, replica=2, senders="all").returncode == 0
    assert worker.came(replica=2)["value"] == 5


def test_a_push_is_tried_again_and_counts_once(worker):
    """One is refused, one is done but its reply lost: two entries, of which the last is read."""
    worker.iris.fault("PushLogs")
    worker.iris.lose_reply("PushLogs")
    assert worker.run(lambda: 1).returncode == 0
    assert worker.iris.calls["PushLogs"] == 3
    assert worker.came()["value"] == 1


def test_a_push_that_fails_fails_the_task(worker):
    """A result is never lost in silence. What cannot get better is not tried again."""
    worker.iris.fault("PushLogs", code="permission_denied", message="not you")
    done = worker.run(lambda: 1)
    assert done.returncode == 1
    assert "returned, but its result cannot be delivered" in done.stderr
    assert "not you" in done.stderr
    assert worker.iris.calls["PushLogs"] == 1


def test_a_controller_that_stays_away_fails_the_task(iris, monkeypatch):
    """After a few tries."""
    monkeypatch.setattr(push_result, "PAUSES_SECONDS", (0, 0))
    monkeypatch.setenv("IRIS_TASK_ID", f"{JOB_ID}/0:0")
    monkeypatch.setenv("IRIS_CONTROLLER_URL", iris.url)
    iris.fault("PushLogs", times=3)
    with pytest.raises(push_result.ResultError, match="did not take it: HTTP 503"):
        push_result.push_value(1, ResultOptions().to_json())
    assert iris.calls["PushLogs"] == 3
    monkeypatch.setenv("IRIS_CONTROLLER_URL", "http://127.0.0.1:1")
    with pytest.raises(push_result.ResultError, match="refused"):
        push_result.push_value(1, ResultOptions().to_json())


def test_without_a_controller_there_is_nowhere_to_send_it(worker):
    """As when the files of a job are run by hand."""
    done = worker.run(lambda: 1, env={"IRIS_CONTROLLER_URL": ""})
    assert done.returncode == 1
    assert "nowhere to send it" in done.stderr


def test_the_tasks_token_goes_along(tmp_path):
    """An Iris that asks who is there asks its tasks too."""
    with LocalIris(Fleet.of(cpu=1), run="script", token="t0ken") as iris:
        worker = Worker(iris, tmp_path)
        assert worker.run(lambda: 1).returncode == 1
        done = worker.run(lambda: 1, env={"IRIS_TASK_TOKEN": "t0ken"})
        assert done.returncode == 0, done.stderr
        assert "t0ken" not in done.stdout + done.stderr


async def test_both_clients_read_a_result_since_the_submission(worker):
    """A result of an earlier job of the same name is not this one's; another attempt's is neither."""
    worker.run(lambda: 1)
    async with AsyncIrisClient(worker.iris.target) as client:
        (text,) = await client.result_entries(JOB_ID, 0, 0, since_ms=1)
        assert read_envelope(text)["value"] == 1
        assert await client.result_entries(JOB_ID, 0, 0, since_ms=2**42) == ()
        assert await client.result_entries(JOB_ID, 0, 1) == ()
        assert (await client.logs(JOB_ID)).lines == ()


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"value": 1}', "[" * 100_000], ids=lambda text: text[:12])
def test_what_is_no_envelope_is_none(text):
    """Anybody may write under any key."""
    assert read_envelope(text) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encoding": "yaml"}, "choose from 'json', 'pickle'"),
        ({"senders": "last"}, "choose from 'first', 'all'"),
        ({"max_bytes": 0}, "positive whole number"),
    ],
)
def test_options_are_checked_where_they_are_made(options, words):
    """The message lists what is known."""
    with pytest.raises(InvalidSpecError, match=words):
        ResultOptions(**options)
