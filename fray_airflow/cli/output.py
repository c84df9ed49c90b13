"""What a command prints: tables on a terminal, plain columns in a pipe, JSON where it was asked for."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from fray_airflow.log_text import readable


def say(text: str) -> None:
    """To people, beside what a program may read."""
    sys.stderr.write(f"{text}\n")


def show(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    # Somebody may be waiting for this line at the other end of a pipe.
    sys.stdout.flush()


def show_json(value: Any, *, one_line: bool = False) -> None:
    show(json.dumps(value) if one_line else json.dumps(value, indent=2))


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Nothing is cut off in a pipe, whatever its width; the last column is the one that may be long."""
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _show_rich(headings, cells)
        return
    lines = [[heading.upper() for heading in headings], *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        show("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def one_line(text: str) -> str:
    """Without line breaks, and without what a terminal would obey: parts of it come from other people's jobs."""
    return " ".join(" ".join(readable(line)) for line in text.splitlines()).strip()


def _show_rich(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
