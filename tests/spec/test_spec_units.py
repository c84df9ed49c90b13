"""Sizes and durations."""

from __future__ import annotations

import contextlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.units import parse_bytes, parse_duration, scale_size

POWERS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


@given(
    number=st.integers(0, 2**63),
    unit=st.sampled_from(sorted(POWERS)),
    tail=st.sampled_from(["", "b", "ib", "i"]),
    upper=st.booleans(),
    space=st.sampled_from(["", " "]),
)
def test_every_spelling_of_a_unit_is_the_same_binary_multiple(number, unit, tail, upper, space):
    text = f"{number}{space}{unit}{tail if unit not in ('', 'b') else ''}{space}"
    assert parse_bytes(text.upper() if upper else text) == number * 1024 ** POWERS[unit]


@given(st.integers(0, 2**80))
def test_whole_bytes_are_kept_exactly_as_number_and_as_text(count):
    assert parse_bytes(count) == count
    assert parse_bytes(str(count)) == count


@pytest.mark.parametrize(
    ("text", "size"),
    [("1.5g", 1610612736), ("0.5KiB", 512), ("1GB", 2**30), ("64g", 64 * 2**30), ("0", 0), (" 4 g ", 2**32)],
)
def test_known_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "bad",
    [
        "",
        " ",
        "g",
        "-1g",
        "1e3",
        "1,5g",
        "abc",
        "1.g",
        ".5g",
        "1gg",
        "1gib1",
        "5ib",
        "16 g b",
        "0x10",
        "nan",
        "inf",
        "9" * 400 + "g",
        "9" * 5000,
        "１６g",
        "1\x00g",
        -1,
        True,
        1.5,
        None,
        b"1g",
        ["1g"],
    ],
)
def test_anything_else_is_a_value_error_that_shows_it(bad):
    with pytest.raises(ValueError, match=r"is not a size|is negative"):
        parse_bytes(bad)


@given(st.text())
def test_no_text_raises_anything_but_value_error(text):
    with contextlib.suppress(ValueError):
        assert parse_bytes(text) >= 0


@given(size=st.integers(2**10, 2**62), factor=st.floats(1e-3, 1e3))
def test_a_scaled_size_is_the_product_within_rounding(size, factor):
    """Twelve digits are kept, and what is left of a byte is cut off."""
    assert parse_bytes(scale_size(size, factor)) == pytest.approx(size * factor, rel=1e-11, abs=2)


@given(size=st.integers(1, 4096), unit=st.sampled_from("kmgt"), factor=st.sampled_from([1, 2, 3, 10, 0.5, 0.25]))
def test_a_size_scaled_there_and_back_is_the_size(size, unit, factor):
    scaled = scale_size(f"{size}{unit}", factor)
    assert parse_bytes(scale_size(scaled, 1 / factor)) == pytest.approx(parse_bytes(f"{size}{unit}"), rel=1e-11)


def test_a_scaled_size_uses_the_largest_unit_that_keeps_it_at_one_or_more():
    assert [scale_size("1g", factor) for factor in (1, 0.5, 1024, 1536, 1 / 2**20)] == [
        "1g",
        "512m",
        "1t",
        "1.5t",
        "1k",
    ]
    assert scale_size("1k", 0.5) == "512b"


@given(st.floats(1e-6, 1e9))
def test_a_duration_is_the_same_from_number_text_and_timedelta(seconds):
    duration = timedelta(seconds=seconds)
    assert parse_duration(seconds) == parse_duration(repr(seconds)) == parse_duration(duration) == duration


def test_a_timedelta_of_a_subclass_stays_what_it_is():
    class Duration(timedelta):
        pass

    value = Duration(seconds=3)
    assert parse_duration(value) is value


@pytest.mark.parametrize(
    "bad",
    [
        0,
        -1,
        "0",
        "",
        "abc",
        "1h",
        "nan",
        "inf",
        float("nan"),
        float("inf"),
        1e300,
        10**400,
        1e-9,
        True,
        None,
        [],
        {},
        timedelta(0),
        timedelta(seconds=-1),
        "-3",
    ],
)
def test_what_is_no_duration_above_zero_is_a_value_error(bad):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(bad)
