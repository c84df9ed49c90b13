"""jobs, logs and cancel, on jobs of a local Iris."""

import io
import json
import re

import pytest

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.local import Outcome


@pytest.fixture
def submit(iris, client):
    """Submits a job with an outcome, and waits until it is finished, or has all its replicas on machines."""

    def launch(name, *outcomes, until_finished=True, **resources):
        iris.script(name, *outcomes)
        config = ResourceConfig.with_tpu("v5p-16") if resources.pop("tpu", False) else ResourceConfig(**resources)
        job = JobRequest(name=name, entrypoint=Entrypoint.from_binary("true"), resources=config)
        handle = client.submit(job)
        if until_finished:
            handle.wait(30)
        else:
            while not all(task.placed for task in handle.tasks()):
                pass
        return handle

    return launch


def listed(command, iris, *words):
    ended = command("jobs", "--target", iris.target, "--json", *words)
    assert ended.code == 0, ended.err
    return [job["job_id"] for job in json.loads(ended.out)]


def test_jobs_are_listed_newest_first_and_filtered(command, iris, submit):
    first = submit("list-one", Outcome.succeed())
    second = submit("list-two", Outcome.fail(3))
    both = ["/airflow/list-two", "/airflow/list-one"]
    assert listed(command, iris, "--prefix", "list-") == both
    assert listed(command, iris, "--prefix", "/airflow/list-") == both
    assert listed(command, iris, "--user", "airflow", "--prefix", "list-") == both
    assert listed(command, iris, "--user", "airflow", "--prefix", "list-", "--limit", "1") == [second.job_id]
    assert listed(command, iris, "--prefix", "list-", "--state", "succeeded") == [first.job_id]
    assert listed(command, iris, "--user", "nobody") == []
    assert listed(command, iris, "--user", "air") == []


def test_a_table_in_a_pipe_is_plain_and_whole(command, iris, submit):
    """Columns without colours or frames, and a reason of any length on one line."""
    job = submit("table-job", Outcome.fail(7, lines=["x"]))
    ended = command("jobs", "--target", iris.target, "--prefix", "table-")
    heading, row = ended.out.splitlines()
    assert heading.split() == ["JOB", "STATE", "REPLICAS", "SUBMITTED", "WHY"]
    assert re.match(rf"{job.job_id}  FAILED  1 failed +\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d  \S", row)
    assert "\x1b" not in ended.out


def test_a_shortened_list_says_so(command, iris, submit):
    submit("short-one", Outcome.succeed())
    submit("short-two", Outcome.succeed())
    ended = command("jobs", "--target", iris.target, "--prefix", "short-", "--limit", "1")
    assert "These are the newest 1" in ended.err
    assert len(ended.out.splitlines()) == 2


@pytest.mark.parametrize("words", [["--state", "sleeping"], ["--limit", "0"], ["--limit", "501"]])
def test_a_filter_that_cannot_be_right_is_misuse_and_names_the_choices(command, iris, words):
    ended = command("jobs", "--target", iris.target, *words)
    assert ended.code == 2
    assert ("worker_failed" in ended.err) or ("from 1 to 500" in ended.err)


def test_logs_name_the_replica_where_there_are_several(command, iris, submit):
    gang = submit("gang-logs", Outcome.succeed(["hello"]), tpu=True)
    single = submit("single-logs", Outcome.succeed(["hello"]))
    both = command("logs", gang.job_id, "--target", iris.target, "--follow")
    assert sorted(both.out.splitlines()) == ["[replica 0] hello", "[replica 1] hello"]
    assert command("logs", gang.job_id, "--target", iris.target, "--replica", "1").out == "hello\n"
    assert command("logs", single.job_id, "--target", iris.target).out == "hello\n"


def test_a_name_means_a_job_of_our_own(command, iris, submit):
    submit("named", Outcome.succeed(["mine"]))
    assert command("logs", "named", "--target", iris.target).out == "mine\n"


@pytest.mark.parametrize("text", ["", "/", "a/b", "/alone", "//x", " x"])
def test_what_is_neither_an_id_nor_a_name_is_misuse(command, iris, text):
    ended = command("logs", text, "--target", iris.target)
    assert ended.code == 2
    assert "give a job id, /user/name" in ended.err


def test_lines_as_json_are_one_object_each(command, iris, submit):
    job = submit("json-logs", Outcome.succeed(["one"], stderr=["two"]))
    lines = map(json.loads, command("logs", job.job_id, "--target", iris.target, "--json").out.splitlines())
    assert {(line["replica"], line["attempt"], line["source"], line["text"]) for line in lines} == {
        (0, 0, "stdout", "one"),
        (0, 0, "stderr", "two"),
    }


def test_what_a_terminal_would_obey_is_left_out_of_lines(command, iris, submit):
    job = submit("rude-logs", Outcome.succeed(["\x1b[31mred\x1b[0m"]))
    assert command("logs", job.job_id, "--target", iris.target).out == "red\n"


@pytest.mark.parametrize(
    ("outcome", "code", "state"), [(Outcome.succeed(["a"]), 0, "SUCCEEDED"), (Outcome.fail(3, ["a"]), 1, "FAILED")]
)
def test_following_ends_with_the_job_and_tells_how(command, iris, submit, outcome, code, state):
    job = submit(f"followed-{code}", outcome, until_finished=False)
    ended = command("logs", job.job_id, "--target", iris.target, "--follow")
    assert (ended.code, ended.out) == (code, "a\n")
    assert ended.err.startswith(f"{job.job_id} {state}")


def test_a_replica_that_is_not_there_is_misuse(command, iris, submit):
    job = submit("no-replica", Outcome.succeed())
    ended = command("logs", job.job_id, "--target", iris.target, "--replica", "4")
    assert ended.code == 2
    assert "has replicas 0 to 0" in ended.err


def test_an_unknown_job_is_exit_code_4(command, iris):
    ended = command("logs", "/airflow/never", "--target", iris.target)
    assert (ended.code, ended.out) == (4, "")
    assert "never submitted there" in ended.err


def test_cancel_ends_what_can_be_ended_and_tells_of_the_rest(command, iris, submit):
    running = submit("cancel-running", Outcome.hang(), until_finished=False)
    done = submit("cancel-done", Outcome.succeed())
    words = ("cancel", "--yes", "--json", "--target", iris.target)
    first = command(*words, running.job_id, done.job_id)
    assert json.loads(first.out) == [
        {"job_id": running.job_id, "result": "cancelled"},
        {"job_id": done.job_id, "result": "SUCCEEDED"},
    ]
    assert first.code == 5
    assert running.wait(30).state.name == "KILLED"
    again = command(*words, running.job_id, "/airflow/never")
    assert [each["result"] for each in json.loads(again.out)] == ["KILLED", "unknown"]
    assert again.code == 4


def test_a_job_that_cannot_be_ended_keeps_no_other_from_its_end(command, iris, submit):
    refused = submit("refused-one", Outcome.hang(), until_finished=False)
    ended = submit("refused-two", Outcome.hang(), until_finished=False)
    iris.fault("TerminateJob", code="permission_denied", message="not yours")
    shown = command("cancel", "--yes", refused.job_id, ended.job_id, "--target", iris.target)
    first, second = shown.out.splitlines()
    assert shown.code == 3
    assert first.startswith(f"{refused.job_id} is not cancelled: ")
    assert "not yours" in first
    assert second.startswith(f"{ended.job_id} is cancelled")
    refused.terminate()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("answer", "code", "finished"), [("n\n", 1, False), ("\n", 1, False), ("", 1, False), ("y\n", 0, True)]
)
def test_cancel_asks_somebody_and_takes_only_a_yes(command, iris, submit, monkeypatch, answer, code, finished):
    job = submit(f"asked-{len(answer)}{code}{ord(answer[:1] or ' ')}", Outcome.hang(), until_finished=False)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    ended = command("cancel", job.job_id, "--target", iris.target)
    assert ended.code == code
    assert ended.err.startswith(f"Cancel {job.job_id}? [y/N] ")
    assert job.state().finished is finished or job.wait(30).state.finished
    job.terminate()


def test_cancel_ends_nothing_where_there_is_nobody_to_ask(command, iris, submit, monkeypatch):
    job = submit("unasked", Outcome.hang(), until_finished=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ended = command("cancel", job.job_id, "--target", iris.target)
    assert (ended.code, ended.out) == (2, "")
    assert "--yes" in ended.err
    assert not job.state().finished
    job.terminate()
