"""When the machine asks for what a function returned, how long, and what it makes of silence."""

from __future__ import annotations

import json

import pytest
from known_launch import JOB_ID, T0, at, attempt, followed, plan, status, task

from fray_airflow.errors import IrisAuthError, IrisUnavailableError, JobFailedError
from fray_airflow.lifecycle import Finish, Plan, ReadLogs, ReadResult, ReadTail, Wait, learn, step
from fray_airflow.lifecycle.ends import end_of
from fray_airflow.logs import LogCursor, LogLine, LogPage
from fray_airflow.rung import Rung
from fray_airflow.states import JobState, TaskState

DONE, FAILED = TaskState.SUCCEEDED, TaskState.FAILED
AWAY = IrisUnavailableError("away", code="unavailable")
SINCE_MS = round(T0.timestamp() * 1000)


def envelope(value):
    return (json.dumps({"v": 1, "encoding": "json", "value": value}),)


def ended(*tasks, state=JobState.SUCCEEDED, seconds=10.0):
    """A job whose end was seen, with its log read and quiet."""
    seen = followed(status(state), *tasks, seconds=seconds)
    return learn(seen, ReadLogs(LogCursor(JOB_ID)), LogPage((), LogCursor(JOB_ID, SINCE_MS)), at(seconds))


def read(replica, number=0):
    return ReadResult(JOB_ID, replica, number, SINCE_MS)


def asked_again(seen, now):
    """After the wait that came in between."""
    seen = learn(seen, Wait(1), None, at(now))
    return learn(seen, ReadLogs(seen.cursor), LogPage((), seen.cursor), at(now))


def test_a_job_without_a_result_is_not_asked_for_one():
    """Commands have a marked line at most."""
    assert step(plan(), ended(task(0, DONE)), at(10))[1] == Wait(0.5)
    assert isinstance(step(plan(), ended(task(0, DONE)), at(12))[1], Finish)


def test_the_result_of_the_last_attempt_of_replica_0_is_asked_for():
    """Since the submission, and as soon as the job has ended."""
    seen = ended(task(0, DONE, attempt(0, FAILED), attempt(1, DONE)), task(1, DONE))
    assert step(plan(result="first", rungs=(Rung(2),)), seen, at(10))[1] == read(0, 1)


def test_a_result_ends_the_asking():
    """The last lines are awaited as ever, and the report has the envelope."""
    seen = learn(ended(task(0, DONE)), read(0), envelope({"loss": 1}), at(10))
    assert step(plan(result="first"), seen, at(10))[1] == Wait(0.5)
    end = step(plan(result="first"), asked_again(seen, 12), at(12))[1]
    assert end.result["result"] == {"v": 1, "encoding": "json", "value": {"loss": 1}}


def test_all_results_are_a_list_by_replica():
    """Each is asked for once between waits."""
    three = plan(result="all", rungs=(Rung(2),))
    seen = ended(task(0, DONE), task(1, DONE))
    seen = learn(seen, read(0), (), at(10))
    assert step(three, seen, at(10))[1] == read(1)
    seen = learn(seen, read(1), envelope("b"), at(10))
    assert step(three, seen, at(10))[1] == Wait(0.5)
    seen = asked_again(seen, 11)
    assert step(three, seen, at(11))[1] == read(0)
    seen = learn(seen, read(0), envelope("a"), at(12))
    end = step(three, seen, at(12))[1]
    assert [each["value"] for each in end.result["result"]] == ["a", "b"]


def test_a_result_that_does_not_come_is_asked_for_half_a_minute():
    """Then the job has succeeded for nothing, and the error says so."""
    first = plan(result="first")
    seen = asked_again(learn(ended(task(0, DONE)), read(0), (), at(10)), 39)
    assert step(first, seen, at(39))[1] == read(0)
    seen = learn(seen, read(0), (), at(39))
    assert step(first, seen, at(39))[1] == Wait(0.5)
    end = step(first, seen, at(40))[1]
    assert isinstance(end.error, JobFailedError)
    assert "SUCCEEDED, but no result of replica 0 has come" in str(end.error)
    assert end.error.state == "SUCCEEDED"


def test_a_log_service_that_is_away_is_borne_like_a_controller():
    """The next try finds the job and reads its result."""
    first = plan(result="first", outage_tolerance=600)
    seen = learn(ended(task(0, DONE)), read(0), AWAY, at(10))
    seen, action = step(first, seen, at(500))
    assert isinstance(action, Wait)
    assert step(first, asked_again(seen, 500), at(500))[1] == read(0)
    end = step(first, seen, at(610))[1]
    assert isinstance(end.error, IrisUnavailableError)
    assert "The next try of this task reads it" in str(end.error)
    last = step(plan(result="first", outage_tolerance=600, last_try=True), seen, at(610))[1]
    assert "Its log still has it" in str(last.error)


def test_a_log_service_that_refuses_us_ends_the_asking():
    """It gives the same answer again."""
    refused = IrisAuthError("not you", code="permission_denied")
    seen = learn(ended(task(0, DONE)), read(0), refused, at(10))
    assert step(plan(result="first"), seen, at(10))[1] == Finish(error=refused)


def test_after_a_question_that_failed_the_others_wait():
    """A gang's worth of questions to a service that is away would take as many deadlines."""
    seen = learn(ended(task(0, DONE), task(1, DONE)), read(0), AWAY, at(10))
    assert isinstance(step(plan(result="all", rungs=(Rung(2),)), seen, at(10))[1], Wait)


def failed_job():
    failed = task(1, FAILED, attempt(0, FAILED, 1, 2), attempt(1, FAILED, 3, 5, exit_code=1))
    seen = ended(task(0, TaskState.KILLED), failed, state=JobState.FAILED)
    return learn(seen, ReadTail(seen.cursor, 1), LogPage((LogLine(1, 1, "last line"),), seen.cursor), at(12))


def test_a_failed_job_is_asked_once_for_what_was_raised():
    """The message has type, text and the end of the traceback instead of the log's last lines."""
    first = plan(result="first", rungs=(Rung(2),))
    assert step(first, failed_job(), at(12))[1] == read(1, 1)
    raised = {"type": "KeyError", "message": "'x'", "traceback": "\n".join(map(str, range(50)))}
    seen = learn(failed_job(), read(1, 1), (json.dumps({"v": 1, "error": raised}),), at(12))
    error = step(first, seen, at(12))[1].error
    assert isinstance(error, JobFailedError)
    assert "FAILED: replica 1 raised KeyError: 'x'" in str(error)
    assert str(error).splitlines()[1:] == ["Its traceback ends:", *(f"  {n}" for n in range(30, 50))]
    assert error.exit_code == 1


@pytest.mark.parametrize("reply", [(), AWAY, IrisAuthError("no", code="permission_denied"), ("garbage",)])
def test_a_failed_job_without_a_readable_exception_shows_its_last_lines(reply):
    """Whatever the log service says: the job's failure is what is told."""
    first = plan(result="first", rungs=(Rung(2),))
    error = step(first, learn(failed_job(), read(1, 1), reply, at(12)), at(12))[1].error
    assert "replica 1 ended with exit code 1" in str(error)
    assert "last line" in str(error)


def test_a_failed_command_is_not_asked_for_what_it_raised():
    """It has no runner that would have told."""
    assert isinstance(step(plan(rungs=(Rung(2),)), failed_job(), at(12))[1], Finish)


def test_replicas_that_could_not_be_read_are_no_reason_to_run_again():
    """When the controller went away right after the end of the job, a later try has a chance."""
    seen = learn(followed(status(JobState.SUCCEEDED), seconds=10), read(0), AWAY, at(10))
    assert isinstance(end_of(plan(result="first"), seen).error, IrisUnavailableError)


def test_the_plan_carries_what_is_awaited_to_the_triggerer():
    """A row of an older version awaits nothing."""
    assert Plan.from_json(plan(result="all").to_json()).result == "all"
    older = plan().to_json()
    del older["result"]
    assert Plan.from_json(older).result == "none"


def test_the_question_is_the_clients():
    """Both clients have the method."""

    class Client:
        def result_entries(self, *args, **kwargs):
            return args, kwargs

    assert read(1, 2).on(Client()) == ((JOB_ID, 1, 2), {"since_ms": SINCE_MS})
