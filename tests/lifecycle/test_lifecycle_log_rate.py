"""When the task's log says that its job prints faster than Iris can carry."""

import json
import logging
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_launch import JOB_ID, T0, followed, plan, status

from fray_airflow.lifecycle import Conversation, ReadLogs
from fray_airflow.lifecycle.log_rate import MOST_CHARACTERS, MOST_LINES, WINDOW_SECONDS, LogRate
from fray_airflow.logs import LogCursor, LogLine, LogPage
from fray_airflow.states import JobState


def page(count, *, start=0.0, seconds=1.0, replica=0, text="x"):
    """Lines spread evenly over `seconds`."""
    times = (T0 + timedelta(seconds=start + seconds * number / count) for number in range(count))
    return LogPage(tuple(LogLine(replica, 0, text, at=at) for at in times), LogCursor(JOB_ID))


def test_many_lines_within_a_window_are_told_once():
    """The text names the replica, and says what may have happened and what to do."""
    rate = LogRate()
    hint = rate.hint(page(MOST_LINES, seconds=4, replica=3))
    assert hint.startswith("replica 3 prints about as much as a worker of Iris can ship: 9,000 lines or 14 MiB")
    assert "may be missing" in hint
    assert "Print less" in hint
    assert rate.hint(page(MOST_LINES, start=10)) == ""


def test_the_lines_of_a_window_may_come_on_many_pages():
    rate = LogRate()
    hints = [rate.hint(page(1000, start=number * 0.4, seconds=0.4)) for number in range(MOST_LINES // 1000)]
    assert [bool(hint) for hint in hints] == [False] * (len(hints) - 1) + [True]


def test_few_lines_that_are_long_count_by_their_length():
    """A worker holds so many bytes, too."""
    text = "x" * (MOST_CHARACTERS // 10)
    assert LogRate().hint(page(9, text=text)) == ""
    assert "14 MiB" in LogRate().hint(page(11, text=text))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, (MOST_LINES - 1) // (WINDOW_SECONDS + 1)), st.floats(0, 1, exclude_max=True))
def test_a_slower_job_is_never_told_of(lines_per_second, start):
    """However long it runs."""
    rate = LogRate()
    assert not any(rate.hint(page(lines_per_second, start=start + second)) for second in range(3 * WINDOW_SECONDS))


@settings(max_examples=20, deadline=None)
@given(st.integers(2_000, 50_000), st.floats(0, 1, exclude_max=True))
def test_a_job_that_lost_lines_is_told_of(lines_per_second, start):
    """Of what it prints in each window of a worker, the last 10,000 lines are kept."""
    rate, kept = LogRate(), 10_000
    seconds = min(kept / lines_per_second, WINDOW_SECONDS)
    windows = [start + number * WINDOW_SECONDS + WINDOW_SECONDS - seconds for number in range(3)]
    assert any(rate.hint(page(kept, start=each, seconds=seconds)) for each in windows)


def test_the_lines_of_two_replicas_are_not_added_up():
    """They need not share a worker."""
    rate = LogRate()
    assert not any(rate.hint(page(MOST_LINES // 2 + 1, replica=replica)) for replica in (0, 1))


def test_lines_that_come_late_count_in_no_window():
    """A worker that was cut off ships old lines between new ones."""
    rate = LogRate()
    rate.hint(page(1, start=60))
    assert rate.hint(page(MOST_LINES)) == ""
    assert rate.hint(page(MOST_LINES - 2, start=60)) == ""
    assert rate.hint(page(1, start=60)) != ""


def test_lines_without_a_time_are_passed_over():
    assert LogRate().hint(LogPage((LogLine(0, 0, "x"),) * (MOST_LINES + 1), LogCursor(JOB_ID))) == ""


@pytest.mark.parametrize("hand_over", [False, True])
def test_the_task_log_has_the_hint_once_across_a_hand_over(hand_over):
    told = []
    tell = lambda level, text: told.append((level, text))  # noqa: E731  # one name for both drivers
    talk = Conversation(plan(), followed(status(JobState.RUNNING)), clock=lambda: T0, tell=tell)
    talk.hear(ReadLogs(LogCursor(JOB_ID)), page(MOST_LINES))
    if hand_over:
        assert talk.reading()["lines"]["rushed"] == 1
        talk = Conversation.resume(json.loads(json.dumps(talk.to_json())), clock=lambda: T0, tell=tell)
    talk.hear(ReadLogs(LogCursor(JOB_ID)), page(MOST_LINES, start=20))
    assert [level for level, text in told if "as much as a worker" in text] == [logging.WARNING]
