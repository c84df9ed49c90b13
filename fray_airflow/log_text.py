"""What programs print, made fit for a log: progress bars, colours, control characters, endless lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_LINE = 8_000
"""Characters. Airflow's pages and log sockets bear more, but a reader does not; the rest follows on further lines."""

# CSI sequences (colours, cursor), OSC sequences (titles, links), and the two-character escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")


def readable(text: str) -> Iterator[str]:
    """`text` as one or more lines that can be logged; nothing that a person could read is lost.

    Of what a program wrote over itself with carriage returns the last state counts, as on a terminal.

    >>> list(readable("10%\\r50%\\r\\x1b[32m100%\\x1b[0m"))
    ['100%']
    """
    if 0 < len(text) <= LONGEST_LINE and not text.isspace() and not _CONTROLS.search(text):
        # Most lines; this takes half the time.
        yield text
        return
    shown = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    shown = _CONTROLS.sub("", _ESCAPES.sub("", shown))
    yield shown[:LONGEST_LINE]
    for start in range(LONGEST_LINE, len(shown), LONGEST_LINE):
        yield "... " + shown[start : start + LONGEST_LINE]
