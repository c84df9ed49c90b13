"""Which of a job's lines are shown in the task's log, and how."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fray_airflow.log_text import readable
from fray_airflow.logs import LogLine, LogPage


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What the author wants to see.

    show: False shows no lines; a result is found in them all the same. replica: only this one's.
    min_level: a logging level; lines without a level of their own are INFO on stdout and ERROR on stderr.
    max_lines: then the others are counted, and their number is told at the end.
    """

    show: bool = True
    replica: int | None = None
    min_level: int = logging.NOTSET
    max_lines: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "show": self.show,
            "replica": self.replica,
            "min_level": self.min_level,
            "max_lines": self.max_lines,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> LogOptions:
        return LogOptions(**{name: value[name] for name in LogOptions.__dataclass_fields__ if name in value})


ALL_LINES = LogOptions()


class LogView:
    """The lines as they are told, page by page. `counts` is what another driver needs to go on."""

    def __init__(self, options: LogOptions, counts: Mapping[str, int] | None = None) -> None:
        self._options = options
        self._shown = (counts or {}).get("shown", 0)
        self._skipped = (counts or {}).get("skipped", 0)

    def tell(self, page: LogPage) -> Iterator[tuple[int, str]]:
        """The page's lines that are shown, with their levels, in the order in which each replica wrote them."""
        for line in filter(self._wanted, page.lines):
            if self._options.max_lines is not None and self._shown >= self._options.max_lines:
                self._skipped += 1
                continue
            self._shown += 1
            for text in readable(line.text):
                yield line.level, f"{line.prefix} {text}"

    def summary(self) -> str:
        """What was not shown, "" if nothing."""
        return f"{self._skipped} lines of the job are not shown (log_max_lines)." if self._skipped else ""

    def counts(self) -> dict[str, int]:
        return {"shown": self._shown, "skipped": self._skipped}

    def _wanted(self, line: LogLine) -> bool:
        options = self._options
        return options.show and options.replica in (None, line.replica) and line.level >= options.min_level
