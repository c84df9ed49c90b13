"""Log cursors and results."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.logs import RESULT_MARK, LogCursor, LogLine, find_result

CURSORS = st.builds(LogCursor, st.text(), st.integers(0, 2**53), st.integers(0, 2**63 - 1))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@given(CURSORS, st.lists(st.integers(-5, 2**63 - 1)))
def test_a_cursor_never_goes_back(cursor, answers):
    for answer in answers:
        following = cursor.advanced(answer)
        assert following.seq == max(cursor.seq, answer)
        assert (following.job_id, following.since_ms) == (cursor.job_id, cursor.since_ms)
        cursor = following


@given(CURSORS)
def test_a_cursor_goes_through_json_whole(cursor):
    assert LogCursor.from_json(json.loads(json.dumps(cursor.to_json()))) == cursor


def test_a_cursor_of_another_version_is_read_as_far_as_it_is_known():
    assert LogCursor.from_json({"job_id": "/a/b", "colour": "red"}) == LogCursor("/a/b")


@given(JSON, st.lists(st.text().filter(lambda text: not text.startswith(RESULT_MARK)), max_size=4))
def test_the_last_marked_line_of_replica_0_is_the_result(result, noise):
    lines = [
        LogLine(0, 0, f'{RESULT_MARK}"earlier"'),
        *(LogLine(0, 0, text) for text in noise),
        LogLine(0, 1, RESULT_MARK + json.dumps(result)),
        LogLine(1, 0, f"{RESULT_MARK}17"),
    ]
    assert find_result(lines) == (True, result)


def test_without_a_marked_line_there_is_no_result():
    assert find_result(
        [LogLine(0, 0, "hello"), LogLine(1, 0, f"{RESULT_MARK}1"), LogLine(0, 0, " " + RESULT_MARK)]
    ) == (
        False,
        None,
    )


@pytest.mark.parametrize("text", ["plain words", "{'a': 1}", "", "[" * 100_000])
def test_a_marked_line_without_json_is_text(text):
    assert find_result([LogLine(0, 0, RESULT_MARK + text)]) == (True, text)


def test_a_line_tells_its_replica_and_a_second_attempt():
    assert str(LogLine(3, 0, "x")) == "[replica 3] x"
    assert str(LogLine(3, 2, "x")) == "[replica 3 attempt 2] x"


def test_a_number_that_json_does_not_have_stays_text():
    """Python would write NaN, but no XCom could hold it."""
    assert find_result([LogLine(0, 0, RESULT_MARK + '{"loss": NaN}')]) == (True, '{"loss": NaN}')
