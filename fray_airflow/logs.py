"""Log lines of a job, and the place up to which they have been read."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

RESULT_MARK = "FRAY_AIRFLOW_RESULT "
"""A line of replica 0 that starts with this and goes on with JSON is the job's result; the last one counts."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one attempt of one replica. `source` is stdout, stderr, or error where Iris itself speaks."""

    replica: int
    attempt: int
    text: str
    source: str = "stdout"
    level: int = logging.INFO
    at: datetime | None = None
    slice: int | None = None
    """Where a launch has a job per slice."""

    @property
    def prefix(self) -> str:
        where = f"replica {self.replica}" if self.slice is None else f"slice {self.slice} replica {self.replica}"
        attempt = f" attempt {self.attempt}" if self.attempt else ""
        return f"[{where}{attempt}]"

    def __str__(self) -> str:
        return f"{self.prefix} {self.text}"


@dataclass(frozen=True, slots=True)
class LogCursor:
    """How far a job's log has been read. Only this class makes and reads its JSON form.

    Iris keeps a log under the job's name, so a replaced job's lines come back under the new job's key: `since_ms`, the
    submission of the job that is meant, keeps them out. `others` are the cursors of the other slices' jobs, where a
    launch has a job per slice.
    """

    job_id: str
    since_ms: int = 0
    seq: int = 0
    others: tuple[LogCursor, ...] = ()

    def advanced(self, seq: int) -> LogCursor:
        """An empty page answers with the cursor it was asked for, or 0: never go back."""
        return replace(self, seq=max(self.seq, seq))

    def to_json(self) -> dict[str, Any]:
        value = {"job_id": self.job_id, "since_ms": self.since_ms, "seq": self.seq}
        return {**value, "others": [each.to_json() for each in self.others]} if self.others else value

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> LogCursor:
        others = tuple(map(LogCursor.from_json, value.get("others") or ()))
        return LogCursor(str(value["job_id"]), int(value.get("since_ms", 0)), int(value.get("seq", 0)), others)


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some lines and the cursor behind them. `full` says that there may be more at once."""

    lines: tuple[LogLine, ...]
    cursor: LogCursor
    full: bool = False


def find_result(lines: Iterable[LogLine]) -> tuple[bool, Any]:
    """Whether replica 0 printed a result, and the last one. A marked line without JSON counts as text."""
    found, result = False, None
    for line in lines:
        if line.replica == 0 and line.text.startswith(RESULT_MARK):
            found, result = True, _parse(line.text.removeprefix(RESULT_MARK))
    return found, result


def _parse(text: str) -> Any:
    try:
        # Python reads and writes NaN and Infinity, but they are not JSON, and an XCom cannot hold them.
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)
