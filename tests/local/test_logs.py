"""The log service: keys, cursor, filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.iris._gen import logging_pb2
from fray_airflow.local import Outcome
from fray_airflow.local.cluster import LOG_PROXY, LOGS
from fray_airflow.local.logs import LogStore

PREFIX = logging_pb2.MATCH_SCOPE_PREFIX


@pytest.fixture
def spoken(iris, job):
    """/a/j has two tasks with three lines each, /a/j2 one with one."""
    iris.script("j", Outcome.succeed(["one", "two ", ""], stderr=["oops"]))
    iris.script("j2", Outcome.succeed(["other"]))
    iris.launch(job("/a/j", replicas=2))
    iris.launch(job("/a/j2"))
    iris.until_ended("/a/j")
    iris.run(1)
    return iris


def test_lines_come_late(iris, job):
    """A job may be over before its last lines can be read."""
    iris.script("j", Outcome.succeed(["hello"]))
    iris.launch(job())
    iris.until_ended("/a/j")
    assert iris.lines("/a/j/") == []
    iris.run(0.5)
    assert iris.lines("/a/j/") == ["hello"]


def test_a_line_says_where_it_comes_from(spoken):
    """Trailing blanks are gone, blank lines are kept, the level follows from the stream."""
    entries = list(spoken.fetch("/a/j/0:").entries)
    assert [(entry.source, entry.data, logging_pb2.LogLevel.Name(entry.level)) for entry in entries] == [
        ("stdout", "one", "LOG_LEVEL_INFO"),
        ("stdout", "two", "LOG_LEVEL_INFO"),
        ("stdout", "", "LOG_LEVEL_INFO"),
        ("stderr", "oops", "LOG_LEVEL_ERROR"),
    ]
    assert {entry.key for entry in entries} == {"/a/j/0:0"}


def test_scopes(spoken):
    """Without its slash a job's prefix also reads the jobs whose names begin alike."""
    assert len(spoken.lines("/a/j/")) == 8
    assert len(spoken.lines("/a/j")) == 9
    assert len(spoken.lines("/a/j/1:0", "EXACT")) == 4
    assert {entry.key for entry in spoken.fetch("/a/j/1:0", "EXACT").entries} == {""}
    assert len(spoken.lines("/a/j/[01]:.*", "REGEX")) == 8
    assert spoken.lines("/a/j2/.*", "UNSPECIFIED") == ["other"]


def test_a_bad_source_is_refused(spoken):
    bad = logging_pb2.FetchLogsRequest(source="(", match_scope=logging_pb2.MATCH_SCOPE_REGEX)
    assert spoken.refusal("FetchLogs", bad).code == "internal"
    empty = logging_pb2.FetchLogsRequest(match_scope=PREFIX)
    assert spoken.refusal("FetchLogs", empty).code == "invalid_argument"


def test_the_cursor_is_exclusive_and_an_empty_page_echoes_it(spoken):
    first = spoken.fetch("/a/j/", max_lines=3)
    rest = spoken.fetch("/a/j/", cursor=first.cursor)
    assert len(first.entries) == 3
    assert len(rest.entries) == 5
    assert first.cursor == first.entries[-1].seq
    assert spoken.fetch("/a/j/", cursor=rest.cursor).cursor == rest.cursor
    assert spoken.fetch("/a/nothing/").cursor == 0
    assert spoken.fetch("/a/nothing/", cursor=77).cursor == 77


def test_until_cursor_is_exclusive_too(spoken):
    seqs = [entry.seq for entry in spoken.fetch("/a/j/").entries]
    assert [entry.seq for entry in spoken.fetch("/a/j/", until_cursor=seqs[2]).entries] == seqs[:2]


def test_a_tail_is_the_end_in_ascending_order(spoken):
    entries = spoken.fetch("/a/j/", tail=True, max_lines=2).entries
    everything = spoken.fetch("/a/j/").entries
    assert [entry.seq for entry in entries] == [entry.seq for entry in everything][-2:]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"substring": "o"}, 6),
        ({"regex": "^t"}, 2),
        ({"min_level": "error"}, 2),
        ({"min_level": "bogus"}, 8),
        ({"cluster": "local"}, 0),
        ({"max_lines": -1}, 8),
    ],
)
def test_filters(spoken, fields, count):
    assert len(spoken.lines("/a/j/", **fields)) == count


def test_since_is_strict(spoken):
    at = spoken.fetch("/a/j2/").entries[0].timestamp.epoch_ms
    assert spoken.lines("/a/j2/", since_ms=at) == []
    assert spoken.lines("/a/j2/", since_ms=at - 1) == ["other"]


def test_a_page_has_1000_lines_unless_asked(iris, job):
    iris.script("j", Outcome.succeed([str(number) for number in range(1500)]))
    iris.launch(job())
    iris.until_ended("/a/j")
    iris.run(1)
    assert len(iris.lines("/a/j/")) == 1000
    assert len(iris.lines("/a/j/", max_lines=100_000)) == 1500


def test_a_replaced_job_shares_its_keys_with_the_new_one(iris, job):
    """Only the time tells the lines of two runs apart: since the submission, less one because it is strict."""
    iris.script("j", Outcome.succeed(["old"]), Outcome.succeed(["new"]))
    for _ in range(2):
        iris.launch(job())
        iris.until_ended("/a/j")
        iris.run(1)
    assert iris.lines("/a/j/0:0", "EXACT") == ["old", "new"]
    assert iris.lines("/a/j/", since_ms=iris.status("/a/j").submitted_at.epoch_ms - 1) == ["new"]


def test_each_attempt_has_its_own_key(iris, job):
    iris.script("j", Outcome.preempt(lines=["first"], seconds=1), Outcome.succeed(["second"]))
    iris.launch(job(max_retries_preemption=1))
    iris.until_ended("/a/j")
    iris.run(1)
    assert [(entry.key, entry.data, entry.attempt_id) for entry in iris.fetch("/a/j/").entries] == [
        ("/a/j/0:0", "first", 0),
        ("/a/j/0:1", "second", 1),
    ]


def test_pushed_lines_are_there_at_once_and_hide_nothing(iris, job):
    """A line that was written before and becomes visible after a pushed one is still behind the cursor."""
    iris.script("j", Outcome.succeed(["slow"]))
    iris.launch(job())
    iris.until_ended("/a/j")
    iris.call(
        "PushLogs", logging_pb2.PushLogsRequest(key="/a/j/0:0.result", entries=[{"source": "result", "data": "42"}])
    )
    page = iris.fetch("/a/j/")
    assert [(entry.source, entry.data) for entry in page.entries] == [("result", "42")]
    iris.run(1)
    assert [entry.data for entry in iris.fetch("/a/j/", cursor=page.cursor).entries] == ["slow"]


def test_lines_of_unknown_level_pass_every_filter(iris):
    iris.call("PushLogs", logging_pb2.PushLogsRequest(key="k", entries=[{"data": "x"}]))
    assert iris.lines("k", min_level="critical") == ["x"]


def test_a_glog_prefix_sets_the_level(iris, job):
    iris.script("j", Outcome.succeed(["W20261130 19:49:01.123 a.py:1] careful"]))
    iris.launch(job())
    iris.until_ended("/a/j")
    iris.run(1)
    assert iris.fetch("/a/j/").entries[0].level == logging_pb2.LOG_LEVEL_WARNING


def test_both_paths_lead_to_the_same_log(spoken):
    request = logging_pb2.FetchLogsRequest(source="/a/j/", match_scope=PREFIX).SerializeToString()
    direct = spoken.cluster.handle(LOGS + "FetchLogs", request)
    assert direct == spoken.cluster.handle(LOG_PROXY + LOGS + "FetchLogs", request)


@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=8),
    steps=st.lists(st.sampled_from(["write", "push", "wait"]), max_size=40),
)
def test_following_with_a_cursor_reads_every_line_once(make_store, sizes, steps):
    """Whatever the page sizes, and whatever is written in between."""
    store, clock = make_store()
    written, read, cursor = 0, [], 0
    for number, step in enumerate([*steps, "wait"]):
        if step == "write":
            store.write("/a/j/0:0", "stdout", str(written), 0)
            written += 1
        elif step == "push":
            store.push(logging_pb2.PushLogsRequest(key="/a/j/0:0", entries=[{"data": str(written)}]))
            written += 1
        else:
            clock.append(clock[-1] + 1)
        page = store.fetch(follow(cursor, sizes[number % len(sizes)]))
        read += [entry.data for entry in page.entries]
        cursor = page.cursor
    while page.entries:
        page = store.fetch(follow(cursor, 3))
        read += [entry.data for entry in page.entries]
        cursor = page.cursor
    assert sorted(read, key=int) == [str(number) for number in range(written)]


def follow(cursor, max_lines):
    return logging_pb2.FetchLogsRequest(source="/a/j/", match_scope=PREFIX, cursor=cursor, max_lines=max_lines)


@pytest.fixture(scope="module")
def make_store():
    def make():
        clock = [1000.0]
        return LogStore(lambda: clock[-1], 0.5), clock

    return make
