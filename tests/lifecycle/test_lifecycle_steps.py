"""Single decisions: whose job it is, how long to wait, what is told, and what travels as JSON."""

from __future__ import annotations

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_launch import EARLIER, JOB, JOB_ID, T0, at, attempt, followed, identity, plan, status, task

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.errors import IrisAuthError, IrisError, IrisUnavailableError, JobExistsError, JobNotFoundError
from fray_airflow.lifecycle import (
    Conversation,
    Finish,
    LookUp,
    Plan,
    PlannedJob,
    ReadLogs,
    ReadStatus,
    ReadTail,
    ReadTasks,
    ReadWorkers,
    Seen,
    Submit,
    Terminate,
    Wait,
    learn,
    step,
    story,
)
from fray_airflow.lifecycle.claim import claim
from fray_airflow.logs import RESULT_MARK, LogCursor, LogLine, LogPage
from fray_airflow.operators.planning import plan_launch
from fray_airflow.operators.rungs import rung_job
from fray_airflow.rung import Rung
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import Worker

RUNNING, FAILED, SUCCEEDED, PENDING = JobState.RUNNING, JobState.FAILED, JobState.SUCCEEDED, JobState.PENDING
AWAY = IrisUnavailableError("connection refused", code="unavailable")

# Whose job has the name

OTHER_LIFE = "place.life-9"


@pytest.mark.parametrize(
    ("own", "earlier", "expected"),
    [
        (None, None, "submit"),
        ((RUNNING, JOB.token), None, "adopt own"),
        ((FAILED, JOB.token), None, "adopt own"),
        ((SUCCEEDED, JOB.token), (RUNNING, EARLIER.token), "adopt own"),
        (None, (RUNNING, EARLIER.token), "adopt earlier"),
        (None, (PENDING, EARLIER.token), "adopt earlier"),
        (None, (JobState(77), EARLIER.token), "adopt earlier"),
        (None, (SUCCEEDED, EARLIER.token), "adopt earlier"),
        (None, (FAILED, EARLIER.token), "submit"),
        (None, (JobState.KILLED, EARLIER.token), "submit"),
        (None, (JobState.WORKER_FAILED, EARLIER.token), "submit"),
        (None, (RUNNING, OTHER_LIFE), "adopt earlier"),
        (None, (SUCCEEDED, OTHER_LIFE), "submit"),
        (None, (RUNNING, "other.life-0"), "submit"),
        (None, (SUCCEEDED, ""), "submit"),
        ((RUNNING, OTHER_LIFE), None, "replace"),
        ((SUCCEEDED, OTHER_LIFE), None, "replace"),
        ((FAILED, OTHER_LIFE), (RUNNING, EARLIER.token), "adopt earlier"),
        ((RUNNING, "other.life-1"), None, "refuse"),
        ((FAILED, "other.life-1"), None, "refuse"),
        ((RUNNING, ""), None, "refuse"),
        ((RUNNING, "."), None, "refuse"),
    ],
)
def test_whose_job_has_the_name(own, earlier, expected):
    """Ours of this try: adopted. Of an earlier try: adopted unless it failed. Of an earlier life: replaced."""
    found = {
        job.job_id: status(holder[0], token=holder[1], job_id=job.job_id) if holder else None
        for job, holder in ((JOB, own), (EARLIER, earlier))
    }
    decision = claim(plan(earlier=(EARLIER,)), Seen(found=found))
    match expected:
        case "submit":
            assert decision == Submit(JOB)
        case "replace":
            assert decision == Submit(JOB, replace=True)
        case "refuse":
            assert isinstance(decision, Finish)
            assert isinstance(decision.error, JobExistsError)
            assert JOB_ID in str(decision.error)
        case _:
            assert decision is found[JOB_ID if expected == "adopt own" else EARLIER.job_id]


def test_every_name_is_looked_up_before_anything_is_submitted():
    launch, seen, asked = plan(earlier=(EARLIER,)), Seen(), []
    while isinstance(action := claim(launch, seen), LookUp):
        asked.append(action.job_id)
        seen = learn(seen, action, JobNotFoundError("Job not found", code="not_found"), T0)
    assert asked == [JOB_ID, EARLIER.job_id]
    assert action == Submit(JOB)


def test_a_name_that_is_taken_meanwhile_is_looked_up_once_more():
    """The first answer may have been lost; if the job is still not ours, the refusal counts."""
    refusal = JobExistsError("Job exists", code="already_exists")
    seen = learn(Seen(found={JOB_ID: None}), Submit(JOB), refusal, T0)
    assert step(plan(), seen, T0)[1] == LookUp(JOB_ID)
    ours = learn(seen, LookUp(JOB_ID), status(RUNNING), T0)
    assert step(plan(), ours, T0)[0].adopted
    gone = learn(seen, LookUp(JOB_ID), JobNotFoundError("Job not found"), T0)
    assert step(plan(), gone, T0)[1] == Finish(error=refusal)
    again = learn(Seen(found={JOB_ID: None}, refused=refusal), Submit(JOB, replace=True), refusal, T0)
    assert step(plan(), again, T0)[1] == Finish(error=refusal)


@pytest.mark.parametrize("error", [IrisAuthError("no"), IrisError("bad", code="internal")])
@pytest.mark.parametrize("action", [LookUp(JOB_ID), Submit(JOB)])
def test_an_answer_that_is_a_refusal_ends_a_submission(action, error):
    assert step(plan(), learn(Seen(), action, error, T0), T0)[1] == Finish(error=error)


@pytest.mark.parametrize("action", [ReadStatus(JOB_ID), ReadTasks(JOB_ID)])
def test_internal_is_transient_once_there_is_a_job(action):
    """Also at the very first look at it."""
    seen = learn(Seen(found={JOB_ID: None}), Submit(JOB), JOB_ID, T0)
    seen = learn(seen, action, IrisError("database is locked", code="internal"), at(1))
    assert isinstance(step(plan(), seen, at(1))[1], Wait)


def test_a_refusal_ends_the_watching():
    error = IrisAuthError("token expired", code="unauthenticated")
    assert step(plan(), learn(followed(status(RUNNING)), ReadStatus(JOB_ID), error, T0), T0)[1] == Finish(error=error)


# Waits


def quiet(seen: Seen, now: float) -> Seen:
    return learn(seen, ReadLogs(LogCursor(JOB_ID)), LogPage((), LogCursor(JOB_ID)), at(now))


@pytest.mark.parametrize(
    ("age", "interval", "expected"),
    [(0, 10, 0.5), (4, 10, 0.5), (30, 10, 3), (99, 10, 9.9), (500, 10, 10), (1, 0.2, 0.2)],
)
def test_the_interval_is_a_tenth_of_the_jobs_age(age, interval, expected):
    """At least half a second, at most the poll interval."""
    _, action = step(plan(poll_interval=interval), quiet(followed(status(RUNNING)), age), at(age))
    assert action == Wait(pytest.approx(expected))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"deadline": at(203)}, 3),
        ({"placement_timeout": 204}, 4),
        ({"placement_timeout": 204, "deadline": at(203)}, 3),
        ({"deadline": at(200.01)}, 0.05),
        ({"deadline": at(900)}, 10),
    ],
)
def test_a_wait_ends_where_a_timeout_does(options, expected):
    _, action = step(plan(**options), quiet(followed(status(PENDING)), 200), at(200))
    assert action == Wait(pytest.approx(expected))


def test_a_finished_job_is_drained_for_two_quiet_seconds():
    seen = quiet(followed(status(SUCCEEDED), seconds=10), 10)
    assert step(plan(), seen, at(11.9))[1] == Wait(0.5)
    assert isinstance(step(plan(), seen, at(12))[1], Finish)


def test_a_finished_job_that_goes_on_talking_is_left_after_half_a_minute():
    cursor = LogCursor(JOB_ID)
    page = LogPage((LogLine(0, 0, "more"),), cursor)
    seen = learn(followed(status(SUCCEEDED), seconds=10), ReadLogs(cursor), page, at(39))
    assert step(plan(), seen, at(39))[1] == Wait(0.5)
    assert isinstance(step(plan(), seen, at(40))[1], Finish)


def test_only_a_failed_job_is_asked_for_its_tail():
    failed = task(2, TaskState.FAILED, attempt(0, TaskState.FAILED, 1, 2, exit_code=1))
    for state in (FAILED, SUCCEEDED):
        seen = quiet(followed(status(state), failed), 0)
        action = step(plan(), seen, at(5))[1]
        assert isinstance(action, ReadTail if state is FAILED else Finish)
    seen = quiet(followed(status(FAILED), failed), 0)
    for reply in (AWAY, LogPage((LogLine(2, 0, "boom"),), LogCursor(JOB_ID))):
        end = step(plan(), learn(seen, ReadTail(seen.cursor, 2), reply, at(5)), at(5))[1]
        assert isinstance(end, Finish)
        assert ("boom" in str(end.error)) is (reply is not AWAY)


def test_a_job_that_is_gone_may_be_terminated():
    seen, action = step(plan(deadline=at(5)), quiet(followed(status(RUNNING)), 5), at(5))
    assert action == Terminate(JOB_ID)
    seen = learn(seen, action, JobNotFoundError("Job not found"), at(5))
    assert isinstance(step(plan(deadline=at(5)), seen, at(5))[1], Finish)


def test_the_last_result_line_of_replica_0_counts():
    lines = [
        LogLine(0, 0, RESULT_MARK + "1"),
        LogLine(1, 0, RESULT_MARK + "2"),
        LogLine(0, 0, RESULT_MARK + '{"a": 3}'),
    ]
    seen = learn(Seen(), ReadLogs(LogCursor(JOB_ID)), LogPage(tuple(lines), LogCursor(JOB_ID)), T0)
    assert (seen.has_result, seen.result) == (True, {"a": 3})
    assert quiet(seen, 1).result == {"a": 3}


def test_an_action_without_a_reply_cannot_be_learnt():
    with pytest.raises(TypeError, match="has no reply"):
        learn(Seen(), Finish(), None, T0)


def test_actions_make_their_calls_on_a_client():
    class Client:
        def __getattr__(self, name):
            return lambda *args, **kwargs: (name, args, kwargs)

    cursor = LogCursor(JOB_ID, since_ms=5)
    assert LookUp("/a/b").on(Client()) == ReadStatus("/a/b").on(Client()) == ("job_status", ("/a/b",), {})
    assert ReadTasks("/a/b").on(Client()) == ("tasks", ("/a/b",), {})
    assert ReadWorkers().on(Client()) == ("workers", (), {})
    assert Terminate("/a/b").on(Client()) == ("terminate", ("/a/b",), {})
    assert ReadLogs(cursor).on(Client()) == ("logs", (JOB_ID, cursor), {})
    assert ReadTail(cursor, 3).on(Client()) == ("log_tail", (JOB_ID, 3), {"since_ms": 5, "lines": 20})


# The story


def told(before: Seen, after: Seen) -> list[str]:
    return [text for _, text in story(before, after)]


def test_nothing_is_told_of_what_did_not_change():
    seen = followed(
        status(RUNNING, task_state_counts={"running": 1}),
        task(0, TaskState.RUNNING, attempt(0, TaskState.PREEMPTED, 1, 2, error="x"), attempt(1, TaskState.RUNNING, 3)),
        workers=(Worker("w"),),
    )
    again = learn(learn(seen, ReadStatus(JOB_ID), seen.status, at(9)), ReadTasks(JOB_ID), seen.tasks, at(9))
    assert told(seen, seen) == told(seen, again) == []


def test_each_change_is_told():
    begin = Seen(found={JOB_ID: None})
    submitted = learn(begin, Submit(JOB), JOB_ID, T0)
    assert told(begin, submitted) == [f"Submitted {JOB_ID}"]
    pending = learn(submitted, ReadStatus(JOB_ID), status(PENDING), T0)
    assert told(submitted, pending) == ["PENDING: no reason given yet"]
    reason = learn(pending, ReadStatus(JOB_ID), status(PENDING, pending_reason="no\n slice"), T0)
    assert told(pending, reason) == ["PENDING: no slice"]
    running = learn(reason, ReadStatus(JOB_ID), status(RUNNING, task_state_counts={"running": 1, "pending": 1}), T0)
    assert told(reason, running) == ["RUNNING (1 running, 1 pending)"]
    tasks = [task(0, TaskState.RUNNING, worker="a"), task(1, TaskState.RUNNING, worker="b")]
    placed = learn(running, ReadTasks(JOB_ID), tasks, at(3))
    assert told(running, placed) == ["All 2 replicas are placed after 3.0 s"]
    located = learn(placed, ReadWorkers(), [Worker("a", attributes={"tpu-name": "s"}), Worker("b")], at(3))
    assert told(placed, located) == ["On slice s (1), worker b (1)"]
    hit = [task(0, TaskState.PENDING, attempt(0, TaskState.PREEMPTED, 1, 4, error="Preempted\nby /x"), worker="")]
    bounced = learn(located, ReadTasks(JOB_ID), [*hit, tasks[1]], at(5))
    assert told(located, bounced) == ["replica 0 attempt 0 PREEMPTED: Preempted by /x"]
    moved = learn(bounced, ReadTasks(JOB_ID), [task(0, TaskState.RUNNING, worker="b"), tasks[1]], at(9))
    assert told(bounced, moved) == ["On worker b (2)"]
    away = learn(moved, ReadStatus(JOB_ID), AWAY, at(10))
    assert told(moved, away) == ["Iris does not answer. The job is not affected; watching goes on."]
    assert told(away, learn(away, ReadStatus(JOB_ID), AWAY, at(11))) == []
    back = learn(away, ReadStatus(JOB_ID), moved.status, at(12))
    assert told(away, back) == ["Iris answers again."]
    stopped, _ = step(plan(deadline=at(12)), back, at(12))
    assert told(back, stopped) == [f"Terminating {JOB_ID}: the task's execution_timeout has passed."]


def test_trouble_is_a_warning():
    seen = followed(status(RUNNING))
    levels = {level for level, _ in story(seen, learn(seen, ReadStatus(JOB_ID), AWAY, T0))}
    assert levels == {logging.WARNING}


def test_an_exit_code_is_told_where_there_is_no_text():
    seen = followed(status(RUNNING))
    failed = learn(
        seen, ReadTasks(JOB_ID), [task(0, TaskState.PENDING, attempt(0, TaskState.FAILED, 1, 2, exit_code=3))], at(2)
    )
    assert "replica 0 attempt 0 FAILED: exit code 3" in told(seen, failed)


def test_a_log_that_cannot_be_read_is_told_once_until_it_can():
    lines = []
    talk = Conversation(plan(), followed(status(RUNNING)), clock=lambda: T0, tell=lambda _, text: lines.append(text))
    action = ReadLogs(LogCursor(JOB_ID))
    page = LogPage((LogLine(0, 1, "hello"),), LogCursor(JOB_ID))
    for reply in (LogPage((), LogCursor(JOB_ID)), AWAY, AWAY, page, AWAY):
        talk.hear(action, reply)
    warning = "The job's log cannot be read now: connection refused"
    assert lines == [warning, "[replica 0 attempt 1] hello", warning]


# JSON

MOMENTS = st.datetimes(timezones=st.just(T0.tzinfo))
NUMBERS = st.floats(0, 1e6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
PLANS = st.builds(
    Plan,
    job=st.builds(PlannedJob, st.text(max_size=9), st.text(max_size=9)),
    rungs=st.lists(
        st.builds(Rung, st.integers(1, 999), st.integers(0, 8), st.integers(1, 4), st.text(max_size=5)),
        min_size=1,
        max_size=3,
    ).map(tuple),
    poll_interval=NUMBERS,
    placement_timeout=st.none() | NUMBERS,
    job_timeout=st.none() | NUMBERS,
    deadline=st.none() | MOMENTS,
    outage_tolerance=NUMBERS,
)


@settings(deadline=None)
@given(PLANS, st.dictionaries(st.text(max_size=5).map(lambda name: f"new_{name}"), JSON, max_size=2))
def test_a_plan_survives_json_and_keys_of_a_newer_writer(launch, unknown):
    value = json.loads(json.dumps(launch.to_json()))
    assert Plan.from_json(value) == launch
    assert Plan.from_json({**unknown, **value, "earlier": [["/a/b", "t"]]}) == launch


def test_a_plan_of_an_older_writer_takes_the_defaults():
    assert Plan.from_json({"job": [JOB.job_id, JOB.token]}) == plan()


@settings(deadline=None)
@given(
    st.sampled_from([*JobState, JobState(77)]),
    st.none() | MOMENTS,
    st.dictionaries(st.integers(0, 99), st.integers(0, 9), max_size=3),
    JSON,
    st.booleans(),
)
def test_what_is_known_survives_json(state, moment, setbacks, result, adopted):
    """What was told already and where the log was read to; the rest is read again."""
    seen = Seen(
        job_id=JOB_ID,
        adopted=adopted,
        since=moment,
        status=status(state, pending_reason="why"),
        cursor=LogCursor(JOB_ID, 5, 7),
        placed_at=moment,
        running_at=moment,
        places={"slice a": 2},
        setbacks=setbacks,
        has_result=True,
        result=result,
    )
    again = Seen.from_json({"new": 1, **json.loads(json.dumps(seen.to_json()))})
    for name in ("job_id", "adopted", "since", "cursor", "placed_at", "running_at", "places", "setbacks", "result"):
        assert getattr(again, name) == getattr(seen, name)
    assert (again.status.state, again.status.pending_reason, again.has_result) == (state, "why", True)
    assert again.to_json() == seen.to_json()
    assert step(plan(), again, T0)[1] == ReadStatus(JOB_ID)


def test_a_job_id_is_all_that_must_be_known():
    """A row of an older version, or one with empty values, is read."""
    empty = Seen.from_json({"job_id": JOB_ID})
    assert step(plan(), empty, T0)[1] == ReadStatus(JOB_ID)
    assert Seen.from_json({**dict.fromkeys(empty.to_json()), "job_id": JOB_ID, "state": 0}).cursor is None


def test_a_conversation_travels_as_one_json_value():
    talk = Conversation(plan(), followed(status(RUNNING)), clock=lambda: T0, tell=lambda *_: None)
    value = json.loads(json.dumps(talk.to_json()))
    assert value["v"] == 1
    again = Conversation.resume({**value, "new": 1}, clock=lambda: T0, tell=lambda *_: None)
    assert again.to_json() == value


@pytest.mark.parametrize("changes", [{}, {"code": "x", "colour": "red"}])
def test_an_error_survives_json_and_facts_of_a_newer_writer(changes):
    error = JobExistsError("taken", job_id=JOB_ID, state="RUNNING", exit_code=3, pending_reason="why", code="x")
    again = IrisError.from_json({**json.loads(json.dumps(error.to_json())), **changes})
    assert type(again) is JobExistsError
    assert (again.message, again.facts()) == (error.message, error.facts())


@pytest.mark.parametrize("kind", ["NewError", "InvalidSpecError", "Any", "annotations", "__name__", ""])
def test_an_error_of_an_unknown_class_is_an_iris_error(kind):
    error = IrisError.from_json({"kind": kind, "message": "m"})
    assert (type(error), str(error), error.exit_code, error.state) == (IrisError, "m", None, "")


# The plan of a try


@pytest.mark.parametrize(("name", "ids"), [(None, 3), ("given", 1)])
def test_a_try_knows_the_jobs_of_the_tries_before_it(name, ids):
    """Those of this life of the task, the newest first."""
    job = JobRequest(
        name="job",
        entrypoint=Entrypoint.from_binary("true"),
        resources=ResourceConfig.with_tpu("v5p-16"),
        timeout=60,
    )
    who = identity(4)
    launch = plan_launch(
        [rung_job(job, None)], who, job_name=name, retries=3, max_tries=4, end_orphans=True, poll_interval=3
    )
    assert launch.job.token == who.token()
    assert [earlier.token for earlier in launch.earlier] == [identity(3).token(), identity(2).token()]
    assert len({each.job_id for each in (launch.job, *launch.earlier)}) == ids
    assert launch.rungs == (Rung(2, 4, 1, "v5p-16", "v5p-16"),)
    assert (launch.job_timeout, launch.poll_interval) == (60, 3)
