"""The log service: lines under keys `<task id>:<attempt>`, read with a cursor over one sequence of all keys."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fray_airflow.iris._gen import logging_pb2

from .wire_error import WireError

DEFAULT_MAX_LINES = 1000

_GLOG_PREFIX = re.compile(r"([DIWEFC])\d{4,8}\s+\d\d:\d\d")
_GLOG_LEVELS = {
    "D": logging_pb2.LOG_LEVEL_DEBUG,
    "I": logging_pb2.LOG_LEVEL_INFO,
    "W": logging_pb2.LOG_LEVEL_WARNING,
    "E": logging_pb2.LOG_LEVEL_ERROR,
    "F": logging_pb2.LOG_LEVEL_CRITICAL,
    "C": logging_pb2.LOG_LEVEL_CRITICAL,
}


class _Line(NamedTuple):
    entry: logging_pb2.LogEntry
    origin: str


class LogStore:
    """Has a lock of its own: the threads that read the tasks' output write here.

    A line gets its number when it becomes visible, `delay_seconds` after it was written, as when a worker flushes.
    So a pushed line, which is visible at once, never makes a reader's cursor skip what was still on its way.
    """

    def __init__(self, clock: Callable[[], float], delay_seconds: float) -> None:
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, logging_pb2.LogEntry]] = []
        self._lines: list[_Line] = []

    def write(self, key: str, source: str, text: str, attempt_id: int) -> None:
        now = self._clock()
        data = text.rstrip()
        entry = logging_pb2.LogEntry(
            timestamp=logging_pb2.Timestamp(epoch_ms=int(now * 1000)),
            source=source,
            data=data,
            attempt_id=attempt_id,
            level=_level(source, data),
            key=key,
        )
        with self._lock:
            self._waiting.append((now + self._delay_seconds, entry))

    def push(self, request: logging_pb2.PushLogsRequest) -> logging_pb2.PushLogsResponse:
        """Any key, readable at once."""
        with self._lock:
            self._publish_due()
            for given in request.entries:
                entry = logging_pb2.LogEntry()
                entry.CopyFrom(given)
                entry.key = request.key
                if not entry.HasField("timestamp"):
                    entry.timestamp.epoch_ms = int(self._clock() * 1000)
                self._publish(entry, request.cluster)
        return logging_pb2.PushLogsResponse()

    def fetch(self, request: logging_pb2.FetchLogsRequest) -> logging_pb2.FetchLogsResponse:
        accept = _key_filter(request)
        pattern = re.compile(request.regex) if request.regex else None
        limit = request.max_lines if request.max_lines > 0 else DEFAULT_MAX_LINES
        with self._lock:
            self._publish_due()
            found = []
            for line in self._between(request):
                if accept(line.entry.key) and _wanted(line, request, pattern):
                    found.append(line.entry)
                    if len(found) == limit:
                        break
        if request.tail:
            found.reverse()
        return _page(found, request)

    def _between(self, request: logging_pb2.FetchLogsRequest) -> Iterator[_Line]:
        """Lines after the cursor and before `until_cursor`, newest first for a tail. Line n has number n + 1."""
        start = max(request.cursor, 0)
        stop = len(self._lines)
        if request.until_cursor > 0:
            stop = min(stop, request.until_cursor - 1)
        numbers = range(start, stop)
        return (self._lines[number] for number in (reversed(numbers) if request.tail else numbers))

    def _publish_due(self) -> None:
        now = self._clock()
        due = [entry for visible_at, entry in self._waiting if visible_at <= now]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > now]
        for entry in due:
            self._publish(entry, "")

    def _publish(self, entry: logging_pb2.LogEntry, origin: str) -> None:
        entry.seq = len(self._lines) + 1
        self._lines.append(_Line(entry, origin))


def _page(entries: list[logging_pb2.LogEntry], request: logging_pb2.FetchLogsRequest) -> logging_pb2.FetchLogsResponse:
    page = logging_pb2.FetchLogsResponse(entries=entries, cursor=entries[-1].seq if entries else request.cursor)
    if request.match_scope == logging_pb2.MATCH_SCOPE_EXACT:
        for entry in page.entries:
            entry.key = ""
    return page


def _key_filter(request: logging_pb2.FetchLogsRequest) -> Callable[[str], bool]:
    source = request.source
    if request.match_scope == logging_pb2.MATCH_SCOPE_EXACT:
        return lambda key: key == source
    if request.match_scope == logging_pb2.MATCH_SCOPE_PREFIX:
        if not source:
            raise WireError("invalid_argument", "source must not be empty with a prefix match")
        return lambda key: key.startswith(source)
    pattern = re.compile(source)
    return lambda key: pattern.search(key) is not None


def _wanted(line: _Line, request: logging_pb2.FetchLogsRequest, pattern: re.Pattern[str] | None) -> bool:
    entry = line.entry
    return (
        (not request.since_ms or entry.timestamp.epoch_ms > request.since_ms)
        and request.substring in entry.data
        and (pattern is None or pattern.search(entry.data) is not None)
        and _is_loud_enough(entry.level, request.min_level)
        and (not request.cluster or request.cluster == line.origin)
    )


def _is_loud_enough(level: int, min_level: str) -> bool:
    """Lines of unknown level always pass, and a level nobody knows asks for nothing."""
    try:
        least = logging_pb2.LogLevel.Value(f"LOG_LEVEL_{min_level.strip().upper()}")
    except ValueError:
        return True
    return level in (logging_pb2.LOG_LEVEL_UNKNOWN, *range(least, logging_pb2.LOG_LEVEL_CRITICAL + 1))


def _level(source: str, data: str) -> logging_pb2.LogLevel:
    prefix = _GLOG_PREFIX.match(data)
    if prefix:
        return _GLOG_LEVELS[prefix[1]]
    return logging_pb2.LOG_LEVEL_INFO if source == "stdout" else logging_pb2.LOG_LEVEL_ERROR
