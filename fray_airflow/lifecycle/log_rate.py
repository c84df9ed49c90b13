"""Whether a job prints faster than Iris can carry its lines away."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from fray_airflow.logs import LogLine, LogPage

WINDOW_SECONDS = 5
"""A worker of Iris ships its lines that often. Between two times it holds 10,000 lines or 16 MiB, and drops the oldest
beyond that, which leaves no mark in the log."""

MOST_LINES = 9_000
MOST_CHARACTERS = 9 * 16 * 1024**2 // 10
"""Nine tenths of what a worker holds: it may serve other replicas too, and seconds are counted as a whole."""


class LogRate:
    """Lines of each replica by the second in which they were written. `counts` is what another driver needs to go on.

    All that a worker has kept of one window came within one window, so a replica that lost lines is seen here, unless
    it shares its worker with others that print much. One that lost none may be seen too: the hint says "may".
    """

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._told = bool((counts or {}).get("rushed"))
        self._windows: defaultdict[int, _Window] = defaultdict(_Window)

    def hint(self, page: LogPage) -> str:
        """A warning for the task's log, once; "" if there is none to give."""
        for (replica, second), printed in ({} if self._told else _by_second(page)).items():
            if self._windows[replica].is_full_with(second, printed):
                self._told = True
                self._windows.clear()
                return _warning(printed.line)
        return ""

    def counts(self) -> dict[str, int]:
        return {"rushed": int(self._told)}


@dataclass(slots=True)
class _Printed:
    """By one replica in one second; `line` is one of these lines."""

    line: LogLine
    lines: int = 0
    characters: int = 0


class _Window:
    """The newest seconds of one replica."""

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[int, int]] = {}

    def is_full_with(self, second: int, printed: _Printed) -> bool:
        lines, characters = self._seconds.get(second, (0, 0))
        self._seconds[second] = lines + printed.lines, characters + printed.characters
        # This may be the second just added: a worker that was cut off for a while ships old lines late.
        oldest = max(self._seconds) - WINDOW_SECONDS
        self._seconds = {each: sums for each, sums in self._seconds.items() if each > oldest}
        all_lines = sum(lines for lines, _ in self._seconds.values())
        return all_lines >= MOST_LINES or sum(text for _, text in self._seconds.values()) >= MOST_CHARACTERS


def _by_second(page: LogPage) -> dict[tuple[int, int], _Printed]:
    found: dict[tuple[int, int], _Printed] = {}
    for line in page.lines:
        if line.at is not None:
            key = line.replica, int(line.at.timestamp())
            printed = found.get(key) or found.setdefault(key, _Printed(line))
            printed.lines += 1
            printed.characters += len(line.text)
    return found


def _warning(line: LogLine) -> str:
    return (
        f"{line.prefix[1:-1]} prints about as much as a worker of Iris can ship: {MOST_LINES:,} lines or "
        f"{MOST_CHARACTERS // 1024**2} MiB within {WINDOW_SECONDS} s. Beyond that the worker drops its oldest lines "
        "without a mark, so some may be missing, here and at Iris. Print less, or write to a file in storage."
    )
