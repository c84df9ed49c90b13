"""The entry point: subcommands, and how each kind of failure reads."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from fray_airflow.cli import cancel, demo, doctor, explain, iris, jobs, logs
from fray_airflow.cli.exits import CommandError, Exit, exit_of
from fray_airflow.cli.output import say
from fray_airflow.errors import FrayError

_COMMANDS = (explain, jobs, logs, cancel, doctor, demo, iris)
_EPILOG = """exit codes: 0 done; 1 no: a check failed, a job did not succeed; 2 arguments, spec, DAG file or connection
cannot be right; 3 Iris did not answer or refused who we are; 4 unknown job; 5 job has finished; 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. argparse exits by itself, with 0 for --help and 2 for misuse."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        say("")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader, `head` say, has seen enough. Python would complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except CommandError as error:
        return _fail(error, error.code)
    except FrayError as error:
        return _fail(error, exit_of(error))


def _fail(error: Exception, code: Exit) -> int:
    say(f"fray-airflow: {error}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fray-airflow",
        description="Explain a job before it runs, look at jobs on Iris, check a connection.",
        epilog=_EPILOG,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in _COMMANDS:
        module.add(commands)
    return parser
