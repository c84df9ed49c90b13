"""The cases of the contract: what an Iris does, one statement each, and how they are run against one Iris."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from iris_under_test import Iris, StateWatch, WorkerLost

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
def running(client: IrisClient, names: Iterable[str]) -> Iterator[dict[str, Future[None]]]:
    """Runs the named cases side by side. A future raises what its case raised."""
    with StateWatch(client) as states:
        pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="case")
        try:
            yield {name: pool.submit(_run, CASES[name], client, states) for name in names}
        finally:
            # After an interrupt there are cases that wait still, or have not begun.
            states.give_up()
            pool.shutdown(cancel_futures=True)


def _run(case: Case, client: IrisClient, states: StateWatch) -> None:
    try:
        case.run(Iris(client, states, case.name))
    except WorkerLost:
        # On a starved machine the real Iris takes its own workers for dead after 10 s. Once more, under other names.
        case.run(Iris(client, states, f"{case.name}-again"))
