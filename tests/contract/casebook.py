"""The cases of the contract: what an Iris does, one statement each, and how they are run against one Iris."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import pytest
from iris_under_test import GivenUp, Iris, StateWatch

from fray_airflow.iris import IrisClient

AT_ONCE = 24
"""Cases mostly wait for tasks, so they wait together. More would only queue in the controller."""


@dataclass(frozen=True)
class Case:
    """`run` submits jobs and asserts. The Iris that it gets submits as a user called like the case."""

    name: str
    statement: str
    run: Callable[[Iris], None]


CASES: dict[str, Case] = {}

INTENDED_DIFFERENCES = {
    "bind-host": "The local Iris says 127.0.0.1, so that nothing a task serves can be reached from another machine.",
}
"""Cases that hold on the real Iris only, each with the reason why the local one is to differ."""


def case(run: Callable[[Iris], None]) -> Callable[[Iris], None]:
    """Adds a function whose docstring says the behaviour."""
    return add_case(run.__name__.replace("_", "-"), run.__doc__ or "", run)


def add_case(name: str, statement: str, run: Callable[[Iris], None]) -> Callable[[Iris], None]:
    if name in CASES:
        raise ValueError(f"two cases are called {name}")
    CASES[name] = Case(name, " ".join(statement.split()), run)
    return run


@contextlib.contextmanager
def running(client: IrisClient, names: Iterable[str], *, starves: bool) -> Iterator[dict[str, Future[str]]]:
    """Runs the named cases side by side. A future raises what its case raised, or has why it ran twice, or "".

    starves: whether this Iris takes its own workers for dead after 10 s on a machine that is too busy, or was
    suspended, which fails cases that it has nothing to do with. Each of them is then run once more, with no other
    beside it, and has to hold.
    """
    alone = threading.Lock()
    with StateWatch(client) as states:
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="case")
        try:
            first = {name: pool.submit(_run, CASES[name], client, states, name) for name in names}
            if starves:
                yield {name: pool.submit(_again, CASES[name], client, states, first, alone) for name in first}
            else:
                yield first
        finally:
            # After an interrupt there are cases that wait still, or have not begun.
            states.give_up()
            pool.shutdown(cancel_futures=True)


def _run(case: Case, client: IrisClient, states: StateWatch, user: str) -> str:
    iris = Iris(client, states, user)
    try:
        case.run(iris)
    finally:
        iris.end()
    return ""


def _again(
    case: Case, client: IrisClient, states: StateWatch, first: Mapping[str, Future[str]], alone: threading.Lock
) -> str:
    try:
        return first[case.name].result()
    except GivenUp:
        raise
    except (Exception, pytest.fail.Exception) as error:
        wait(first.values())
        with alone:
            _run(case, client, states, f"{case.name}-again")
        return f"{type(error).__name__}: {error}"
