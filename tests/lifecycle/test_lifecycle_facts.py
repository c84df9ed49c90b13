"""What is told of a launch to those who watch tasks: at any time, and however it ended."""

import json
from dataclasses import replace

from known_launch import JOB, JOB_ID, T0, at, attempt, followed, plan, status, task

from fray_airflow.errors import IrisUnavailableError
from fray_airflow.lifecycle import Conversation, LookUp, ReadStatus, Round, Seen, Submit, Wait
from fray_airflow.lifecycle.facts import launch_facts
from fray_airflow.lifecycle.report import report
from fray_airflow.lifecycle.tally import Tally
from fray_airflow.rung import Rung
from fray_airflow.states import JobState, TaskState
from fray_airflow.status import Worker

DONE, FAILED = TaskState.SUCCEEDED, TaskState.FAILED
GANG = (Rung(2, 4, 1, "v5p-16", "v5p-16"),)


def talking(seen=None):
    return Conversation(plan(), seen or Seen(), clock=lambda: T0, tell=lambda *_: None)


def test_before_anything_is_known_there_are_facts_of_the_plan_only():
    """Which are JSON too."""
    facts = json.loads(json.dumps(launch_facts(plan(rungs=GANG), Seen(), Tally())))
    assert (facts["machines"], facts["device"], facts["replicas"]) == ("v5p-16", "v5p-16", 2)
    assert (facts["job_id"], facts["job_ids"], facts["state"]) == ("", [], "")
    assert (facts["queue_seconds"], facts["run_seconds"], facts["exit_code"]) == (None, None, None)


def test_the_facts_of_a_success_are_those_of_its_report():
    """And some that a result does not tell."""
    seen = followed(
        status(JobState.SUCCEEDED, finished_at=at(50), preemption_count=2),
        task(0, DONE, attempt(0, TaskState.PREEMPTED, 4, 10), attempt(1, DONE, 20, 50)),
        task(1, DONE, attempt(0, DONE, 6, 50)),
        workers=(Worker("w", attributes={"tpu-name": "slice-7", "device-variant": "v5p-16"}),),
        seconds=60,
    )
    facts, told = launch_facts(plan(rungs=GANG), seen, Tally(1)), report(plan(rungs=GANG), seen)
    assert {name: facts[name] for name in told if name != "result"} == {
        name: value for name, value in told.items() if name != "result"
    }
    assert (facts["slices"], facts["launches"], facts["failed_replica"]) == (["slice-7"], 1, None)


def test_a_failure_tells_the_replica_that_began_it():
    """With its exit code, and with the times of the job."""
    seen = followed(
        status(JobState.FAILED, finished_at=at(9), failure_count=1),
        task(0, TaskState.KILLED, attempt(0, TaskState.KILLED, 1, 9)),
        task(1, FAILED, attempt(0, FAILED, 2, 8, exit_code=7)),
        seconds=9,
    )
    facts = launch_facts(plan(rungs=GANG), seen, Tally())
    assert (facts["failed_replica"], facts["exit_code"]) == (1, 7)
    assert (facts["queue_seconds"], facts["run_seconds"]) == (2.0, 7.0)


def test_launches_again_after_slices_failed_or_were_lost_are_counted():
    """Iris ends such a job, so that its own count stays at one. The result counts as the facts do."""
    seen = followed(
        status(JobState.SUCCEEDED, preemption_count=1, failure_count=1), task(0, DONE, attempt(0, DONE, 1, 2))
    )
    seen = replace(seen, round=Round(5, failures=3, preemptions=2))
    for told in (launch_facts(plan(), seen, Tally()), report(plan(), seen)):
        assert (told["failure_count"], told["preemption_count"]) == (4, 3)


def test_a_job_of_a_choice_that_is_gone_has_facts_all_the_same():
    """Its DAG had more choices of machines when it was launched."""
    seen = replace(followed(status(JobState.RUNNING), task(0, TaskState.RUNNING)), round=Round(5, 5))
    assert launch_facts(plan(rungs=GANG), seen, Tally())["machines"] == "v5p-16"


def test_a_submission_is_a_launch_and_an_adoption_is_none():
    """What was there before this try was counted by the one that submitted it."""
    submitted, adopted = talking(), talking(Seen(found={JOB_ID: status(JobState.RUNNING)}))
    submitted.hear(Submit(JOB), JOB_ID)
    adopted.next()
    assert adopted.seen.adopted
    assert (submitted.tally.launches, adopted.tally.launches) == (1, 0)


def test_a_submission_whose_reply_was_lost_is_a_launch():
    """It is found and adopted, but it was this try that made it."""
    talk = talking(Seen(found={JOB_ID: None}))
    talk.hear(Submit(JOB), IrisUnavailableError("no answer"))
    while isinstance(action := talk.next(), LookUp | Wait):
        talk.hear(action, status(JobState.RUNNING) if isinstance(action, LookUp) else None)
    assert (talk.seen.job_id, talk.seen.adopted) == (JOB_ID, True)
    assert talk.tally == Tally(launches=1, outages=1)


def test_an_outage_counts_once_until_iris_answers_again():
    """However many calls it takes."""
    talk = talking(followed(status(JobState.RUNNING), task(0, TaskState.RUNNING)))
    for reply in (IrisUnavailableError("away"),) * 3:
        talk.hear(ReadStatus(JOB_ID), reply)
    talk.hear(ReadStatus(JOB_ID), status(JobState.RUNNING))
    talk.hear(ReadStatus(JOB_ID), IrisUnavailableError("away again"))
    assert talk.tally.outages == 2


def test_counts_go_on_with_the_next_driver():
    """And one that hands over without them, an older version, has counted nothing."""
    talk = Conversation(plan(), Seen(), clock=lambda: T0, tell=lambda *_: None, tally=Tally(2, 3))
    value = json.loads(json.dumps(talk.to_json()))
    again = Conversation.resume(value, clock=lambda: T0, tell=lambda *_: None)
    assert again.tally == Tally(2, 3)
    del value["tally"]
    assert Conversation.resume(value, clock=lambda: T0, tell=lambda *_: None).tally == Tally()
