"""How a trigger writes its job's lines: all of them, in order, and never at the cost of other triggers."""

import asyncio
import contextvars
import logging
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fray_airflow.triggers.log_writer import (
    BATCH_CHARACTERS,
    BLOCKED_SECONDS,
    LONGEST_PAUSE_SECONDS,
    SHORTEST_PAUSE_SECONDS,
    LogWriter,
    Pace,
)

told = st.lists(st.tuples(st.sampled_from([logging.INFO, logging.ERROR]), st.text("ab", max_size=2000)), max_size=60)


def written(lines, *, behind):
    events = []
    writer = LogWriter(lambda level, text: events.append((level, text)), Pace())
    for level, text in lines:
        writer.tell(level, text)
    asyncio.run(writer.flush(behind=behind))
    return events


@given(told)
@settings(deadline=None, max_examples=30)
def test_each_line_is_an_event_of_its_own(lines):
    """As long as the trigger is not behind."""
    assert written(lines, behind=False) == lines


@given(told)
@settings(deadline=None, max_examples=30)
def test_lines_share_events_while_there_is_more_to_come(lines):
    """Only with others of their level, in the same order, and up to what Airflow reads at once."""
    events = written(lines, behind=True)
    assert [(level, text) for level, event in events for text in event.split("\n")] == lines
    assert all(len(event) <= BATCH_CHARACTERS or "\n" not in event for _, event in events)


def test_many_short_lines_make_few_events():
    assert len(written([(logging.INFO, "x" * 50)] * 1000, behind=True)) <= 20


async def test_a_log_that_blocks_does_not_stop_the_loop():
    """Here it waits for the loop itself, which would never come if the loop waited for it."""
    released, events = threading.Event(), []

    def log(_, text):
        assert released.wait(20)
        events.append(text)

    writer = LogWriter(log, Pace())
    writer.tell(logging.INFO, "a")
    flushing = asyncio.create_task(writer.flush())
    await asyncio.sleep(0)
    assert not events
    released.set()
    await flushing
    assert events == ["a"]


async def test_lines_carry_the_context_of_their_trigger():
    """By it Airflow tells whose log a line belongs to."""
    trigger_id, seen = contextvars.ContextVar("trigger_id"), []
    writer = LogWriter(lambda *_: seen.append(trigger_id.get()), Pace())
    writer.tell(logging.INFO, "a")
    trigger_id.set(7)
    await writer.flush()
    assert seen == [7]


async def test_a_cancellation_keeps_its_message():
    """By which Airflow tells a kill from a restart."""
    released = threading.Event()
    writer = LogWriter(lambda *_: released.wait(20), Pace())
    writer.tell(logging.INFO, "a")
    flushing = asyncio.create_task(writer.flush())
    await asyncio.sleep(0)
    flushing.cancel("user action")
    with pytest.raises(asyncio.CancelledError, match="user action"):
        await flushing
    released.set()


FORKING = """
import asyncio, os, signal
from fray_airflow.triggers.log_writer import LogWriter, Pace

def write():
    writer = LogWriter(lambda *_: None, Pace())
    writer.tell(20, "a")
    asyncio.run(writer.flush())

write()
if os.fork() == 0:
    signal.alarm(20)
    write()
    os._exit(0)
assert os.wait()[1] == 0
"""


def test_a_fork_of_a_process_that_has_written_can_write_too():
    """As a test runner or an executor may do it."""
    subprocess.run([sys.executable, "-c", FORKING], check=True, timeout=60)


def test_the_pause_grows_while_airflow_keeps_it_waiting_and_then_shrinks():
    pace = Pace()
    pace.learn(BLOCKED_SECONDS / 2)
    assert pace.pause == SHORTEST_PAUSE_SECONDS
    pace.learn(2 * BLOCKED_SECONDS)
    assert pace.pause > SHORTEST_PAUSE_SECONDS
    for _ in range(50):
        pace.learn(2 * BLOCKED_SECONDS)
    assert pace.pause == LONGEST_PAUSE_SECONDS
    for _ in range(2000):
        pace.learn(0.0)
    assert pace.pause == SHORTEST_PAUSE_SECONDS
