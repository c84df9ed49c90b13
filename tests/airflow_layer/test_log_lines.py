"""A job's lines in the task's log."""

import asyncio
import logging
import re
import threading

import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import GetXCom, SetXCom, XComResult

from fray_airflow import ResourceConfig, errors
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.testing.operator import TaskInstance, run_operator
from fray_airflow.triggers.bookmark import BOOKMARK_KEY, Bookmark

LINES = [f"line {number}" for number in range(25)]


class Submit(IrisSubmitJobOperator):
    """Collects what it logs."""

    defer_after_seconds = 0

    def _tell(self, level, text):
        self.told.append((level, text))


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        operator = Submit(**{"task_id": "train", "command": ["true"], **arguments})
    operator.told = []
    return operator


def lines_of(operator):
    return [text for _, text in operator.told if text.startswith("[replica")]


def test_every_line_of_every_replica_is_shown_once_and_in_its_order(scripted):
    """Two replicas, sync."""
    scripted.script("*", Outcome.succeed(LINES, seconds=1))
    operator = submit(resource_config=ResourceConfig.with_tpu("v5p-16"))
    run_operator(operator)
    for replica in (0, 1):
        prefix = f"[replica {replica}] "
        assert [text.removeprefix(prefix) for text in lines_of(operator) if text.startswith(prefix)] == LINES


def test_across_a_deferral_no_line_is_lost_or_told_twice(scripted, capsys):
    """What the worker told the trigger does not."""
    scripted.script("*", Outcome.succeed(LINES, seconds=3))
    operator = submit(deferrable=True)
    run_operator(operator)
    told_by_trigger = re.findall(r"\[replica 0\] (line \d+)", capsys.readouterr().out)
    assert [text.removeprefix("[replica 0] ") for text in lines_of(operator)] + told_by_trigger == LINES


def test_a_log_of_many_pages_is_told_whole_by_a_trigger(scripted, capsys):
    """While it is behind, lines share events; none of them is lost, told twice or out of order."""
    lines = [f"line {number}" for number in range(3500)]
    scripted.script("*", Outcome.succeed(lines, seconds=3))
    operator = submit(deferrable=True)
    run_operator(operator)
    told_by_trigger = re.findall(r"\[replica 0\] (line \d+)", capsys.readouterr().out)
    assert len(told_by_trigger) > 1000
    assert [text.removeprefix("[replica 0] ") for text in lines_of(operator)] + told_by_trigger == lines


def test_lines_can_be_switched_off_and_the_result_still_comes(scripted):
    """show_logs=False."""
    scripted.script("*", Outcome.succeed([*LINES, "FRAY_AIRFLOW_RESULT 7"]))
    operator = submit(show_logs=False)
    assert run_operator(operator).value["result"] == 7
    assert lines_of(operator) == []


def test_a_cap_says_how_many_lines_it_cost(scripted):
    """log_max_lines."""
    scripted.script("*", Outcome.succeed(LINES))
    operator = submit(log_max_lines=10)
    run_operator(operator)
    assert len(lines_of(operator)) == 10
    assert operator.told[-1] == (logging.WARNING, "15 lines of the job are not shown (log_max_lines).")


def test_stderr_keeps_its_level(scripted):
    """And log_min_level chooses by it."""
    scripted.script("*", Outcome.succeed(["fine"], stderr=["trouble"]))
    operator = submit(log_min_level="error")
    run_operator(operator)
    assert operator.told[-1][1] == "SUCCEEDED (1 succeeded)" or ("[replica 0] trouble" in lines_of(operator))
    assert lines_of(operator) == ["[replica 0] trouble"]


def test_ugly_output_of_a_real_program_is_readable(running):
    """Progress bars, colours, NUL, a line of a megabyte."""
    code = r"""import sys; sys.stdout.write('10%\r100%\n\x1b[31mred\x1b[0m\na\0b\n' + 'x' * 1_000_000 + '\n')"""
    operator = submit(command=["python", "-c", code])
    run_operator(operator)
    shown = [text.removeprefix("[replica 0] ") for text in lines_of(operator)]
    assert shown[:3] == ["100%", "red", "ab"]
    assert sum(len(text.removeprefix("... ")) for text in shown[3:]) == 1_000_000


def test_a_log_service_that_fails_costs_one_warning_and_not_the_task(scripted):
    """However often it fails."""
    scripted.script("*", Outcome.succeed(seconds=2))
    scripted.fault("FetchLogs", times=5)
    operator = submit()
    assert run_operator(operator).value["state"] == "SUCCEEDED"
    assert len([text for _, text in operator.told if "cannot be read now" in text]) == 1


@pytest.mark.parametrize("bad", [{"log_min_level": "loud"}, {"log_replica": -1}, {"log_max_lines": "10"}])
def test_bad_options_are_named(bad):
    """With the valid choices."""
    with pytest.raises(errors.InvalidSpecError, match=next(iter(bad))):
        submit(**bad)


class XComs:
    """The far side of the task SDK, for XComs."""

    def __init__(self):
        self.values = {}

    def send(self, message):
        match message:
            case SetXCom():
                self.values[message.key] = message.value
                return None
            case GetXCom():
                return XComResult(key=message.key, value=self.values.get(message.key))
        raise RuntimeError(f"not asked in these tests: {message}")


async def test_a_trigger_goes_on_where_a_dead_one_had_come_to(monkeypatch):
    """Its bookmark is written at most every 30 s, and belongs to one job."""
    far_side = XComs()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", far_side, raising=False)
    ti = TaskInstance("pipeline", "run-1", "train")
    first = Bookmark(ti)
    place = {"log_cursor": {"job_id": "/me/job", "since_ms": 1, "seq": 9}, "lines": {"shown": 4, "skipped": 0}}
    await first.keep("/me/job", place)
    assert far_side.values == {}
    first._kept_at -= 31
    await first.keep("/me/job", place)
    assert set(far_side.values) == {BOOKMARK_KEY}
    assert await Bookmark(ti).read("/me/job") == {"job_id": "/me/job", **place}
    assert await Bookmark(ti).read("/me/another") is None


class SlowXComs(XComs):
    """Takes its time."""

    def send(self, message):
        self.asked.set()
        self.go_on.wait(10)
        return super().send(message)


async def test_a_kill_that_comes_while_the_bookmark_is_read_keeps_its_message(monkeypatch):
    """Airflow tells a kill from a restart by it."""
    far_side = SlowXComs()
    far_side.asked, far_side.go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", far_side, raising=False)
    reading = asyncio.create_task(Bookmark(TaskInstance("pipeline", "run-1", "train")).read("/me/job"))
    while not far_side.asked.is_set():
        await asyncio.sleep(0.01)
    reading.cancel("by the user")
    with pytest.raises(asyncio.CancelledError) as caught:
        await reading
    far_side.go_on.set()
    assert caught.value.args == ("by the user",)
