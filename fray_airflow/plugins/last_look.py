"""A last look at tasks that people mark: their jobs must not outlive the mark, even if nobody was told of it.

Airflow calls on_kill of a task runner, or of a trigger that runs. A deferred task whose trigger no triggerer has taken
up yet has neither, so the API server that carries out the mark looks after its job. Only there: see `listeners`.
"""

from __future__ import annotations

import heapq
import logging
import sys
import time
from collections.abc import Callable, Collection, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.listeners import hookimpl

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance

log = logging.getLogger(__name__)

LOOK_SECONDS = (30.0, 60.0, 300.0, 900.0)
"""From the mark to the first look, and from look to look while Iris does not answer. The first to end a job are the
task's runner and its trigger, which write it to the task's log; a busy triggerer needs more than 20 s for it."""

_BATCH = 200
"""A run that is marked may have thousands of task instances."""


type Mark = UUID | tuple[str, str]
"""What was marked: a try of a task instance by its id, or a whole run by its DAG's id and its own."""


class LastLooks:
    """What is to be looked at, and when. Its thread lives while there is anything.

    look: gets some marks, and returns those that are to be looked at again.
    """

    def __init__(
        self, look: Callable[[Sequence[Mark]], Collection[Mark]], seconds: Sequence[float] = LOOK_SECONDS
    ) -> None:
        self._look = look
        self._seconds = seconds
        self._due: list[tuple[float, int, str, Mark]] = []
        self._changed = Condition()
        self._thread: Thread | None = None

    def add(self, mark: Mark) -> None:
        """Returns at once. The same may be added twice."""
        with self._changed:
            self._plan([mark], 0)
            # A thread does not survive the fork of a server's process.
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="fray-airflow-last-look", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while (ready := self._next()) is not None:
            number, marks = ready
            try:
                left = self._look(marks)
            except Exception:
                # Most likely Airflow's database.
                log.exception("The jobs of %d marked tasks or runs could not be looked at", len(marks))
                left = marks
            with self._changed:
                self._plan(left, number + 1)

    def _plan(self, marks: Collection[Mark], number: int) -> None:
        if number < len(self._seconds):
            at = time.monotonic() + self._seconds[number]
            for mark in marks:
                # The text is there for the heap, which compares.
                heapq.heappush(self._due, (at, number, str(mark), mark))
        elif marks:
            log.error("Gave up on the jobs of %d marked tasks or runs. They may still run.", len(marks))

    def _next(self) -> tuple[int, list[Mark]] | None:
        """Waits for what is due, and returns it with the number of looks before. None ends the thread."""
        with self._changed:
            while self._due and (wait := self._due[0][0] - time.monotonic()) > 0:
                self._changed.wait(wait)
            if not self._due:
                self._thread = None
                return None
            now, number = time.monotonic(), self._due[0][1]
            marks: list[Mark] = []
            while self._due and self._due[0][0] <= now and self._due[0][1] == number and len(marks) < _BATCH:
                marks.append(heapq.heappop(self._due)[3])
            return number, list(dict.fromkeys(marks))


class MarkListener:
    """Airflow calls these within the request that marks a task or a whole run, before it is committed."""

    def __init__(self, looks: LastLooks) -> None:
        self._looks = looks

    @hookimpl
    def on_task_instance_failed(self, previous_state: Any, task_instance: TaskInstance) -> None:
        self._marked(previous_state, task_instance)

    @hookimpl
    def on_task_instance_success(self, previous_state: Any, task_instance: TaskInstance) -> None:
        self._marked(previous_state, task_instance)

    @hookimpl
    def on_task_instance_skipped(self, previous_state: Any, task_instance: TaskInstance) -> None:
        self._marked(previous_state, task_instance)

    # Of a run that is marked, Airflow tells only the tasks that were running or deferred, and before 3.3 none. It skips
    # those that wait for their next try, whose jobs may run.
    @hookimpl
    def on_dag_run_failed(self, dag_run: DagRun) -> None:
        self._looks.add((dag_run.dag_id, dag_run.run_id))

    @hookimpl
    def on_dag_run_success(self, dag_run: DagRun) -> None:
        self._looks.add((dag_run.dag_id, dag_run.run_id))

    def _marked(self, previous_state: Any, task_instance: TaskInstance) -> None:
        # A task that ends by itself was running before.
        if previous_state is None:
            self._looks.add(UUID(str(task_instance.id)))


def _look(marks: Sequence[Mark]) -> Collection[Mark]:
    from fray_airflow.plugins.leftovers import end_leftovers

    return end_leftovers(marks)


_LISTENER = MarkListener(LastLooks(_look))


def listeners() -> list[object]:
    """Ours in an API server, none in other processes.

    Marks are made in API servers only. And in a DAG processor any listener at all would make Airflow refuse the DAGs
    whose deferrable sensors have `end_from_trigger`.
    """
    return [_LISTENER] if "airflow.api_fastapi.main" in sys.modules else []
