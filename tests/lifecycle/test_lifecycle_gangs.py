"""A gang on a level that no worker has: what the log and the error say of it."""

import json
import logging

import pytest
from known_launch import JOB, JOB_ID, T0, at, plan, status, task

from fray_airflow.errors import IrisUnavailableError, PlacementTimeoutError
from fray_airflow.lifecycle import (
    Conversation,
    Finish,
    ReadStatus,
    ReadTasks,
    ReadWorkers,
    Seen,
    Submit,
    Terminate,
    Wait,
    learn,
    story,
)
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import Worker

HOPELESS = "Scheduler: Coscheduling: 2 workers match constraints but none have 'leafgroup' attribute"
HOSTS = [Worker(f"w{n}", attributes={"device-type": "gpu", "zone": "z"}) for n in range(2)]
WAITING = status(JobState.PENDING, pending_reason=HOPELESS, task_count=2)
TASKS = (task(0, TaskState.PENDING, worker=""), task(1, TaskState.PENDING, worker=""))


def submitted():
    return learn(Seen(found={JOB_ID: None}), Submit(JOB), JOB_ID, T0)


def waiting():
    """The status and the workers were read."""
    seen = learn(learn(submitted(), ReadStatus(JOB_ID), WAITING, at(1)), ReadTasks(JOB_ID), TASKS, at(1))
    return learn(seen, ReadWorkers(), HOSTS, at(1))


def replies(talk, limit=40):
    """Drives a launch that waits: every call is answered, and the clock moves with its waits."""
    for _ in range(limit):
        action = talk.next()
        if isinstance(action, Finish):
            return action
        known = {ReadStatus: WAITING, ReadTasks: TASKS, ReadWorkers: HOSTS, Terminate: None}
        talk.hear(action, None if isinstance(action, Wait) else known.get(type(action), IrisUnavailableError("away")))
        yield action
    return None


def test_the_workers_are_asked_for_once_and_the_advice_is_told_once():
    """One ListWorkers a launch: a gang may wait for days."""
    now = [0.0]
    told = []
    talk = Conversation(plan(), submitted(), clock=lambda: at(now[0]), tell=lambda *line: told.append(line))
    actions = []
    for action in replies(talk):
        now[0] += action.seconds if isinstance(action, Wait) else 0
        actions.append(action)
    assert [type(action) for action in actions].count(ReadWorkers) == 1
    (line,) = [line for line in told if "leafgroup" in line[1] and "No worker" in line[1]]
    assert line[0] == logging.WARNING
    assert "GPU workers share zone (up to 2 hosts): set gpu_gang_level" in line[1]


def test_an_answer_that_does_not_come_is_asked_for_again():
    seen = learn(submitted(), ReadStatus(JOB_ID), WAITING, at(1))
    assert "workers" in seen.due
    seen = learn(seen, ReadWorkers(), IrisUnavailableError("away"), at(1))
    assert "workers" not in seen.due
    assert "workers" in learn(seen, ReadStatus(JOB_ID), WAITING, at(2)).due


def test_another_driver_does_not_tell_it_again():
    """It travels with what was seen."""
    seen = waiting()
    resumed = Seen.from_json(json.loads(json.dumps(seen.to_json())))
    assert resumed.advice == seen.advice != ""
    again = learn(resumed, ReadStatus(JOB_ID), WAITING, at(2))
    assert "workers" not in again.due
    assert not [text for _, text in story(resumed, again) if "No worker" in text]


@pytest.mark.parametrize(
    "after",
    [
        status(JobState.PENDING, pending_reason="Coscheduling: need 2 workers in 'zone' group 'z', only 1 of 2"),
        status(JobState.RUNNING),
    ],
    ids=["another reason", "placed"],
)
def test_the_advice_goes_with_its_reason(after):
    """Workers with the level may come."""
    assert waiting().advice
    assert learn(waiting(), ReadStatus(JOB_ID), after, at(2)).advice == ""


def test_the_error_of_a_placement_timeout_says_it_instead_of_waiting_longer():
    now = [0.0]
    talk = Conversation(plan(placement_timeout=30), submitted(), clock=lambda: at(now[0]), tell=lambda *_: None)
    steps = replies(talk, 400)
    try:
        while True:
            action = next(steps)
            now[0] += action.seconds if isinstance(action, Wait) else 0
    except StopIteration as end:
        error = end.value.error
    assert isinstance(error, PlacementTimeoutError)
    assert "none have 'leafgroup' attribute" in error.pending_reason
    assert "set gpu_gang_level, of the task or of the connection, to one of these" in str(error)
    assert "Wait longer" not in str(error)
