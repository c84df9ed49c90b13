"""FetchLogs: what is read under which key, and how a reader gets on."""

from __future__ import annotations

import json

from casebook import case
from iris_under_test import SLEEP, Iris

from fray_airflow.iris import calls
from fray_airflow.iris._gen import job_pb2, logging_pb2
from fray_airflow.logs import LogCursor

EXACT, REGEX = logging_pb2.MATCH_SCOPE_EXACT, logging_pb2.MATCH_SCOPE_REGEX


def count_to(number: int) -> tuple[str, ...]:
    return ("sh", "-c", f"seq {number}")


@case
def log_line(iris: Iris) -> None:
    """A line has its key, source, level, attempt and time; lines are stripped at the end, and blank ones are kept."""
    job_id = iris.launch(argv=("sh", "-c", "printf 'out  \\n\\n  in\\n'; echo err >&2"))
    lines = iris.lines(job_id, 4)
    assert {line.key for line in lines} == {f"{job_id}/0:0"}
    assert {line.attempt_id for line in lines} == {0}
    out = [line for line in lines if line.source == "stdout"]
    (err,) = (line for line in lines if line.source == "stderr")
    assert [line.data for line in out] == ["out", "", "  in"]
    assert {line.level for line in out} == {logging_pb2.LOG_LEVEL_INFO}
    assert (err.data, err.level) == ("err", logging_pb2.LOG_LEVEL_ERROR)
    submitted = iris.job(job_id).submitted_at.epoch_ms
    assert all(line.timestamp.epoch_ms >= submitted for line in lines)
    seqs = [line.seq for line in lines]
    assert seqs == sorted(set(seqs))


@case
def log_level_prefix(iris: Iris) -> None:
    """A line that starts as glog does has the level that it says, on either stream."""
    script = (
        "echo 'W20261024 10:00:00 1 m.py:1] careful' >&2; echo 'I20261024 10:00:00 1 m.py:1] fine' >&2;"
        "echo 'E20261024 10:00:00 1 m.py:1] bad'"
    )
    levels = {line.data[0]: line.level for line in iris.lines(iris.launch(argv=("sh", "-c", script)), 3)}
    assert levels == {
        "W": logging_pb2.LOG_LEVEL_WARNING,
        "I": logging_pb2.LOG_LEVEL_INFO,
        "E": logging_pb2.LOG_LEVEL_ERROR,
    }


@case
def log_scopes(iris: Iris) -> None:
    """A prefix with a slash means one job; without it also its namesakes. Exact reads leave the key out."""
    one, two = iris.launch("j", ("echo", "one"), replicas=2), iris.launch("j2", ("echo", "two"))
    iris.lines(one, 2)
    iris.lines(two, 1)
    assert [line.data for line in iris.log(f"{one}/").entries] == ["one", "one"]
    assert sorted(line.data for line in iris.log(one).entries) == ["one", "one", "two"]
    assert [line.key for line in iris.log(f"{one}/1:").entries] == [f"{one}/1:0"]
    (exact,) = iris.log(f"{one}/1:0", match_scope=EXACT).entries
    assert (exact.data, exact.key) == ("one", "")
    assert not iris.log(f"{one}/1", match_scope=EXACT).entries
    assert len(iris.log(f"{one}.*/0:0", match_scope=REGEX).entries) == 2
    unsaid = iris.call(calls.FETCH_LOGS, source=f"{one}.*/0:0")
    assert len(unsaid.entries) == 2


@case
def log_bad_source(iris: Iris) -> None:
    """A bad expression and an empty prefix are refused."""
    assert iris.refused(calls.FETCH_LOGS, source="(", match_scope=REGEX).code == "internal"
    refusal = iris.refused(calls.FETCH_LOGS, match_scope=logging_pb2.MATCH_SCOPE_PREFIX)
    assert refusal.code == "invalid_argument"


@case
def log_cursor(iris: Iris) -> None:
    """A reader gets on by its cursor: lines behind it, the last one's number as the next; none without new lines."""
    job_id = iris.launch(argv=count_to(25))
    iris.lines(job_id, 25)
    seen, cursor = [], 0
    while True:
        page = iris.log(f"{job_id}/", cursor=cursor, max_lines=10)
        if not page.entries:
            break
        assert page.cursor == page.entries[-1].seq > cursor
        assert len(page.entries) <= 10
        seen += [line.data for line in page.entries]
        cursor = page.cursor
    assert seen == [str(number) for number in range(1, 26)]
    assert page.cursor == cursor
    assert iris.log(f"/{iris.user}/none/").cursor == 0


@case
def log_page_size(iris: Iris) -> None:
    """A page has 1000 lines unless more are asked for; 0 and less mean 1000."""
    job_id = iris.launch(argv=count_to(1500))
    iris.until(lambda: iris.log(f"{job_id}/", max_lines=2000), lambda page: len(page.entries) == 1500)
    for unsaid in ({}, {"max_lines": 0}, {"max_lines": -5}):
        assert len(iris.log(f"{job_id}/", **unsaid).entries) == 1000
    assert len(iris.log(f"{job_id}/", max_lines=100_000).entries) == 1500


@case
def log_tail(iris: Iris) -> None:
    """The tail is the last lines, oldest first."""
    job_id = iris.launch(argv=count_to(20))
    iris.lines(job_id, 20)
    assert [line.data for line in iris.log(f"{job_id}/", tail=True, max_lines=3).entries] == ["18", "19", "20"]


@case
def log_filters(iris: Iris) -> None:
    """Lines are chosen by time, text, number and least level; a level that does not exist chooses all."""
    job_id = iris.launch(argv=("sh", "-c", "echo a.c; echo abc; echo wrong >&2"))
    lines = iris.lines(job_id, 3)
    last = max(line.timestamp.epoch_ms for line in lines)
    assert not iris.log(f"{job_id}/", since_ms=last).entries
    assert len(iris.log(f"{job_id}/", since_ms=min(line.timestamp.epoch_ms for line in lines) - 1).entries) == 3
    assert [line.data for line in iris.log(f"{job_id}/", substring="a.c").entries] == ["a.c"]
    assert [line.data for line in iris.log(f"{job_id}/", min_level="error").entries] == ["wrong"]
    assert [line.data for line in iris.log(f"{job_id}/", min_level="Warning").entries] == ["wrong"]
    assert len(iris.log(f"{job_id}/", min_level="bogus").entries) == 3
    first, second, _ = sorted(line.seq for line in lines)
    assert len(iris.log(f"{job_id}/", cursor=first, until_cursor=second + 1).entries) == 1
    assert len(iris.log(f"{job_id}/", regex="^a.c$").entries) == 2
    assert not iris.log(f"{job_id}/", cluster="local").entries


@case
def log_of_attempts(iris: Iris) -> None:
    """Each attempt has a key of its own, and one read of the job gives all."""
    script = 'echo "$IRIS_TASK_ID"; case "$IRIS_TASK_ID" in *:0) exit 1;; esac'
    job_id = iris.launch(argv=("sh", "-c", script), max_retries_failure=1, max_task_failures=1)
    lines = iris.lines(job_id, 2)
    assert [(line.key, line.attempt_id, line.data) for line in lines] == [
        (f"{job_id}/0:0", 0, f"{job_id}/0:0"),
        (f"{job_id}/0:1", 1, f"{job_id}/0:1"),
    ]


@case
def log_after_replacing(iris: Iris) -> None:
    """A replaced job's lines stay under the key; only the time of submission tells them apart."""
    job_id = iris.launch(argv=("echo", "old"))
    iris.lines(job_id, 1)
    iris.finished(job_id)
    iris.launch(argv=("echo", "new"))
    lines = iris.lines(job_id, 2)
    assert [(line.key, line.data) for line in lines] == [(f"{job_id}/0:0", "old"), (f"{job_id}/0:0", "new")]
    submitted = iris.job(job_id).submitted_at.epoch_ms
    page = iris.client.logs(job_id, LogCursor(job_id, since_ms=submitted))
    assert [line.text for line in page.lines] == ["new"]


@case
def log_of_killed(iris: Iris) -> None:
    """What a killed task printed can be read."""
    job_id = iris.launch(argv=("sh", "-c", "echo before; sleep 300"))
    iris.lines(job_id, 1)
    iris.terminate(job_id)
    assert iris.printed(job_id) == ["before"]


@case
def log_while_running(iris: Iris) -> None:
    """Lines can be read while the task runs."""
    job_id = iris.launch(argv=("sh", "-c", "echo early; sleep 300"))
    assert iris.printed(job_id) == ["early"]
    assert iris.job(job_id).state == job_pb2.JOB_STATE_RUNNING
    iris.terminate(job_id)


@case
def log_of_nothing(iris: Iris) -> None:
    """A job that has not run has no lines, nor has one that nobody knows."""
    job_id = iris.launch("quiet", SLEEP)
    assert not iris.log(f"{job_id}/").entries
    assert not iris.log(f"/{iris.user}/none/").entries
    iris.terminate(job_id)


@case
def log_text(iris: Iris) -> None:
    """Any text of one line comes back as it was printed."""
    text = "Grüße, \t 日本 \x1b[31mred\x1b[0m" + "x" * 50_000
    job_id = iris.launch(argv=("python", "-c", f"print({json.dumps(text)})"))
    assert iris.printed(job_id) == [text]


@case
def log_large_reply(iris: Iris) -> None:
    """A page may be larger than the 4 MiB that gRPC allows by default."""
    job_id = iris.launch(argv=("python", "-c", "for _ in range(100): print('x' * 50_000)"))
    assert sum(len(line.data) for line in iris.lines(job_id, 100)) == 5_000_000
