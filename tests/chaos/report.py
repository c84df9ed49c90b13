"""The tables at the end."""

from __future__ import annotations

from collections.abc import Sequence

from faults import Struck
from proxy import Proxy
from rich.console import Console
from rich.table import Table
from verdict import Totals, Violation


def print_report(
    console: Console, struck: Sequence[Struck], totals: Totals, proxy: Proxy, violations: Sequence[Violation]
) -> None:
    console.print(_faults(struck))
    console.print(_totals(totals, proxy, violations))
    for violation in violations:
        # A token in brackets is not markup.
        console.print(f"{violation.rule}: {violation.evidence}", highlight=False, markup=False, soft_wrap=True)


def _faults(struck: Sequence[Struck]) -> Table:
    table = Table("fault", "count", "recovered", "fastest", "median", "slowest", title="Faults")
    for kind in sorted({each.kind for each in struck}):
        same = [each for each in struck if each.kind == kind]
        times = sorted(each.recovery for each in same if each.recovery is not None)
        shown = [f"{time:.1f} s" for time in (times[0], times[len(times) // 2], times[-1])] if times else ["-"] * 3
        table.add_row(kind, str(len(same)), str(len(times)), *shown)
    table.add_section()
    table.add_row("all", str(len(struck)), str(sum(each.recovery is not None for each in struck)), "", "", "")
    return table


def _totals(totals: Totals, proxy: Proxy, violations: Sequence[Violation]) -> Table:
    table = Table("what", "number", title="Totals")
    for what, number in (
        ("task instances", totals.task_instances),
        ("tries", totals.tries),
        ("jobs expected: one each, and one per job that failed and was tried again", totals.expected),
        ("jobs launched", totals.launched),
        ("replies cut", proxy.cuts),
        ("launches whose reply was lost", proxy.lost_launches),
        ("connections refused", proxy.refused),
        ("looks at the job list", totals.samples),
        ("looks without an answer", totals.missed),
        ("violations", len(violations)),
    ):
        table.add_row(what, str(number))
    return table
