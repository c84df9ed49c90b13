"""A subcommand's place in the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], summary: str, *, json: bool = True
) -> argparse.ArgumentParser:
    """`run` returns the exit code."""
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    parser.set_defaults(run=run)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    return parser
