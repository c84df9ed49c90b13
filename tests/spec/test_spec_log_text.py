"""What programs print, made fit for a log."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.log_text import LONGEST_LINE, readable


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain", ["plain"]),
        ("", [""]),
        ("10%\r50%\r100%", ["100%"]),
        ("100%\r", ["100%"]),
        ("\x1b[1;31mred\x1b[0m", ["red"]),
        ("\x1b]0;title\x07text", ["text"]),
        ("a\x00b\x07c", ["abc"]),
        ("tab\tstays", ["tab\tstays"]),
        ("é ☃ stays", ["é ☃ stays"]),
    ],
)
def test_what_a_terminal_would_show(printed, shown):
    """Progress bars collapse to their last state, colours and control characters go."""
    assert list(readable(printed)) == shown


@given(st.integers(1, 5 * LONGEST_LINE))
def test_a_long_line_is_split_and_nothing_of_it_is_lost(length):
    """Lines of megabytes become several."""
    text = "".join(chr(97 + at % 26) for at in range(length))
    lines = list(readable(text))
    assert "".join(line.removeprefix("... ") for line in lines) == text
    assert all(len(line) <= LONGEST_LINE + 4 for line in lines)


@given(st.text())
def test_no_control_character_survives(text):
    """Whatever was printed."""
    assert {char for line in readable(text) for char in line if unicodedata.category(char) == "Cc"} <= {"\t"}
