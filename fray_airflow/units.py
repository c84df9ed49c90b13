"""Byte sizes and durations as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

_SIZE = re.compile(
    r"\s*(?P<number>\d{1,30}(?:\.\d{1,30})?)\s*(?:(?P<unit>[kmgtp])i?b?|b)?\s*", re.IGNORECASE | re.ASCII
)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_bytes(size: str | int) -> int:
    """Bytes in `size`. Every suffix is a binary multiple, as in Iris: "1g", "1GB" and "1GiB" are all 2**30.

    A bare number is bytes. Raises ValueError for anything else, negative numbers included.

    >>> parse_bytes("16g"), parse_bytes("1.5GiB"), parse_bytes(512)
    (17179869184, 1610612736, 512)
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise ValueError(f"{size!r} is negative")
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if not match:
        raise ValueError(f'{size!r} is not a size; write a number and a unit, like "16g", "512m" or "1.5t"')
    number, unit = match["number"], match["unit"]
    scale = 1024 ** _POWERS[unit.lower()] if unit else 1
    # A float would round large whole numbers.
    return int(number) * scale if number.isdecimal() else int(float(number) * scale)


def scale_size(size: str | int, factor: float) -> str:
    """`size` times `factor`, in the largest unit that keeps it at 1 or more.

    >>> scale_size("16g", 0.5), scale_size("1g", 0.5), scale_size("3g", 0.5)
    ('8g', '512m', '1.5g')
    """
    total = parse_bytes(size) * float(factor)
    for unit in ("t", "g", "m", "k"):
        value = total / 1024 ** _POWERS[unit]
        if value >= 1:
            return f"{value:.12g}{unit}"
    return f"{round(total)}b"


def parse_duration(value: timedelta | float | str) -> timedelta:
    """A duration given as timedelta or as seconds (number or numeric text). Raises ValueError unless it is above 0.

    >>> parse_duration(90), parse_duration("1.5")
    (datetime.timedelta(seconds=90), datetime.timedelta(seconds=1, microseconds=500000))
    """
    try:
        duration = value if isinstance(value, timedelta) else timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r} is not a duration; give a timedelta or seconds") from None
    if isinstance(value, bool) or duration <= timedelta(0):
        raise ValueError(f"{value!r} is not a duration; give a timedelta or seconds above 0")
    return duration
