"""Which lines of a job are shown."""

import logging

from fray_airflow.lifecycle.log_view import LogOptions, LogView
from fray_airflow.logs import LogCursor, LogLine, LogPage


def page(*lines):
    return LogPage(lines, LogCursor("/me/job"))


def texts(view, *lines):
    return [text for _, text in view.tell(page(*lines))]


def test_lines_carry_replica_attempt_and_level():
    """Attempt 0 is not worth a word."""
    view = LogView(LogOptions())
    lines = [LogLine(0, 0, "a"), LogLine(1, 2, "b", "stderr", logging.ERROR)]
    assert list(view.tell(page(*lines))) == [
        (logging.INFO, "[replica 0] a"),
        (logging.ERROR, "[replica 1 attempt 2] b"),
    ]


def test_one_replica_and_a_level_can_be_chosen():
    """Others are not counted as skipped: nobody wanted them."""
    view = LogView(LogOptions(replica=1, min_level=logging.WARNING))
    assert texts(view, LogLine(0, 0, "a", level=logging.ERROR), LogLine(1, 0, "b")) == []
    assert texts(view, LogLine(1, 0, "c", level=logging.ERROR)) == ["[replica 1] c"]
    assert view.summary() == ""


def test_lines_beyond_the_cap_are_counted_across_a_hand_over():
    """The next driver goes on counting."""
    first = LogView(LogOptions(max_lines=2))
    assert len(texts(first, LogLine(0, 0, "a"))) == 1
    second = LogView(LogOptions(max_lines=2), first.counts())
    assert texts(second, *(LogLine(0, 0, text) for text in "bcd")) == ["[replica 0] b"]
    assert second.summary() == "2 lines of the job are not shown (log_max_lines)."


def test_options_survive_json_of_older_and_newer_writers():
    """Missing ones take their defaults, unknown ones are ignored."""
    options = LogOptions(show=False, replica=3, min_level=30, max_lines=5)
    assert LogOptions.from_json({**options.to_json(), "later": 1}) == options
    assert LogOptions.from_json({}) == LogOptions()
