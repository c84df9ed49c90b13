"""Scripts and faults: what a test can make happen."""

from __future__ import annotations

import pytest

from fray_airflow.iris._gen import controller_pb2, job_pb2
from fray_airflow.local import Outcome
from fray_airflow.local.wire_error import WireError

C = controller_pb2.Controller
WHOAMI = job_pb2.GetCurrentUserRequest()


def test_outcomes_are_drawn_per_launch_and_in_order(iris, job):
    iris.script("train*", Outcome.fail(2), Outcome.succeed())
    iris.launch(job("/a/train-1"))
    iris.launch(job("/a/eval"))
    iris.until_ended("/a/train-1")
    iris.launch(job("/a/train-2"))
    assert [iris.until_ended(name) for name in ("/a/train-1", "/a/eval", "/a/train-2")] == [
        "FAILED",
        "SUCCEEDED",
        "SUCCEEDED",
    ]


def test_all_tasks_of_an_attempt_meet_the_same_outcome(iris, job):
    iris.script("j", Outcome.succeed(["hi"]), Outcome.fail())
    iris.launch(job(replicas=3))
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    iris.run(1)
    assert iris.lines("/a/j/") == ["hi"] * 3


def test_preemptions_come_before_what_follows(iris, job):
    iris.script("j", Outcome.preempt(times=2), Outcome.succeed())
    iris.launch(job(max_retries_preemption=2))
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    assert iris.status("/a/j").preemption_count == 2


def test_staying_pending_can_end(iris, job):
    iris.script("j", Outcome.stay_pending(seconds=2), Outcome.fail(5))
    iris.launch(job())
    iris.run(1)
    assert iris.state("/a/j") == "PENDING"
    assert iris.until_ended("/a/j") == "FAILED"


def test_what_was_not_met_is_listed(iris, job):
    iris.script("j", Outcome.succeed(), Outcome.fail(3))
    iris.script("other", Outcome.hang())
    iris.launch(job())
    iris.until_ended("/a/j")
    first, second = iris.cluster.unused_script()
    assert first == "j: Outcome.fail(exit_code=3)"
    assert second == "other: Outcome.hang()"


def test_a_preemption_by_hand_needs_a_running_task(iris, job):
    iris.script("j", Outcome.hang(), Outcome.succeed())
    iris.launch(job(max_retries_preemption=1))
    iris.until_running("/a/j")
    iris.cluster.preempt("/a/j/0")
    assert iris.until_ended("/a/j") == "SUCCEEDED"
    with pytest.raises(LookupError):
        iris.cluster.preempt("/a/j/0")
    with pytest.raises(LookupError):
        iris.cluster.lose_worker("none")


def test_a_refused_call_does_nothing(iris, job):
    iris.cluster.faults.refuse("LaunchJob", "unavailable", 2)
    assert [iris.refusal("LaunchJob", job()).code for _ in range(2)] == ["unavailable"] * 2
    assert iris.refusal("GetJobStatus", C.GetJobStatusRequest(job_id="/a/j")).code == "not_found"
    assert iris.launch(job()) == "/a/j"
    assert iris.cluster.faults.calls["LaunchJob"] == 3


def test_a_lost_reply_has_done_its_work(iris, job):
    iris.cluster.faults.lose_reply("LaunchJob", 1)
    assert iris.refusal("LaunchJob", job()).code == "unavailable"
    assert iris.state("/a/j") == "PENDING"


def test_being_away_refuses_whatever_comes(iris):
    iris.cluster.faults.refuse("*", "unavailable", 1, "Controller is shutting down")
    assert iris.refusal("GetCurrentUser", WHOAMI).message == "Controller is shutting down"
    iris.call("GetCurrentUser", WHOAMI)


def test_a_code_that_does_not_exist_is_refused_when_it_is_given(iris):
    with pytest.raises(ValueError, match="choose from"):
        iris.cluster.faults.refuse("LaunchJob", "UNAVAILABLE", 1)


def test_an_unknown_method_is_unimplemented(iris):
    with pytest.raises(WireError) as caught:
        iris.cluster.handle("/iris.cluster.ControllerService/Nope", b"")
    assert caught.value.code == "unimplemented"
