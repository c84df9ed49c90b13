"""The contract as a table: cases by targets. `python tests/contract/table.py` runs the contract and prints it."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from casebook import Case

TARGETS = ("local-grpc", "local-connect", "real-grpc", "real-connect")
MARKS = {"passed": "pass", "failed": "FAIL", "error": "FAIL", "skipped": "-"}
DIFFERS = "differs"
AGAIN = "again"
"""It held alone, after it had failed beside the others."""


def print_table(
    cases: Mapping[str, Case],
    differences: Mapping[str, str],
    reports: Iterable[pytest.TestReport],
    terminal: pytest.TerminalReporter,
    *,
    all_rows: bool,
) -> None:
    """Without `all_rows` only those that fail somewhere, if only at first, and the totals.

    differences: reasons by name of case.
    """
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    firsts: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        if found := re.search(rf"\[({'|'.join(TARGETS)})-(.+)\]$", report.nodeid):
            # An expected failure is reported as skipped.
            rows[found[2]][found[1]] = DIFFERS if hasattr(report, "wasxfail") else MARKS[report.outcome]
            if first := dict(report.user_properties).get("first"):
                rows[found[2]][found[1]] = AGAIN
                firsts[found[2]].append(f"  On {found[1]} it first ended with {first}")
    terminal.section("contract with Iris")
    width = max(map(len, rows), default=0)
    terminal.write_line("  ".join(["case".ljust(width), *TARGETS]))
    for name in (name for name in cases if name in rows):
        marks = rows[name]
        failed = "FAIL" in marks.values()
        if failed or firsts[name] or all_rows:
            cells = [marks.get(target, "").center(len(target)) for target in TARGETS]
            terminal.write_line("  ".join([name.ljust(width), *cells]).rstrip(), red=failed)
        if failed:
            terminal.write_line(f"  {cases[name].statement}")
        elif all_rows and DIFFERS in marks.values():
            terminal.write_line(f"  {cases[name].statement} Intended: {differences[name]}")
        for line in firsts[name]:
            terminal.write_line(line)
    for label, mark in {"passed": "pass", "held when run again": AGAIN, "differ as intended": DIFFERS}.items():
        totals = [sum(marks.get(target) == mark for marks in rows.values()) for target in TARGETS]
        cells = [f"{total} of {len(rows)}".center(len(target)) for total, target in zip(totals, TARGETS, strict=True)]
        terminal.write_line("  ".join([label.ljust(width), *cells]).rstrip())


if __name__ == "__main__":
    sys.exit(pytest.main([str(Path(__file__).parent), "-q", "--tb=short", *sys.argv[1:]]))
