"""The shared poller's rules, without a controller: what of a job is to be read again."""

import pytest

from fray_airflow.errors import IrisUnavailableError
from fray_airflow.logs import LogCursor, LogLine, LogPage
from fray_airflow.states import JobState
from fray_airflow.status import JobStatus
from fray_airflow.triggers.polled_job import DETAIL_SECONDS, QUIET_SECONDS, PolledJob

JOB = "/airflow/train"
EMPTY = LogPage((), LogCursor(JOB))
PRINTED = LogPage((LogLine(0, 0, "step"),), LogCursor(JOB))


def job_in(state, at=0.0, **fields):
    job = PolledJob(JOB)
    job.learn(JobStatus(JOB, state, task_count=2, **fields), at)
    return job


def waiting_long():
    job = job_in(JobState.PENDING, -1000)
    job.learn(job.detail, 0)
    return job


def running(count, at=0.0):
    return job_in(JobState.RUNNING, at, task_state_counts={"running": count, "pending": 2 - count})


def test_a_waiting_job_that_waits_on_takes_no_call():
    """Its last details are given again."""
    job = waiting_long()
    job.hear(JobState.PENDING, 10)
    assert job.take() is job.detail


@pytest.mark.parametrize("answer", [JobState.RUNNING, JobState.FAILED, None], ids=["runs", "ended", "not told"])
def test_a_change_takes_a_call(answer):
    """And so does a batch that says nothing of it, since only a call of its own tells why."""
    job = job_in(JobState.PENDING)
    job.hear(answer, 10)
    assert job.take() is None


def test_what_was_heard_is_given_once():
    """Who asks again without a look in between gets what is true then."""
    job = waiting_long()
    job.hear(JobState.PENDING, 10)
    assert job.take() is not None
    assert job.take() is None


def test_details_wear_out():
    """By the time of the look, so that those of equal age are not asked for alone in the moment after it."""
    job = waiting_long()
    job.hear(JobState.PENDING, DETAIL_SECONDS - 1)
    assert not job.worn
    assert job.take() is not None
    job.hear(JobState.PENDING, DETAIL_SECONDS)
    assert job.worn
    assert job.take() is None


def test_a_job_that_has_just_begun_to_wait_is_looked_at_closely():
    """The reason comes some time after the submission, and people want to know it. Later there is less news."""
    job = job_in(JobState.PENDING, 0)
    renewed = []
    for now in range(1, 200):
        job.hear(JobState.PENDING, now)
        if job.worn:
            job.learn(job.detail, now)
            renewed.append(now)
    assert renewed == [1, 4, 16, 64, 124, 184]


def test_details_that_nobody_had_time_to_renew_do_for_another_while():
    """A reason that is old is better than thousands of calls."""
    job = waiting_long()
    job.hear(JobState.PENDING, DETAIL_SECONDS)
    job.put_off(DETAIL_SECONDS)
    assert job.take() is job.detail
    job.hear(JobState.PENDING, 2 * DETAIL_SECONDS)
    assert job.worn


def test_what_listjobs_tells_renews_them_and_keeps_the_request():
    """Its rows have no environment and no band."""
    job = job_in(JobState.PENDING, request_env={"A": "1"}, band="batch")
    job.hear(JobState.PENDING, DETAIL_SECONDS)
    job.learn_row(JobStatus(JOB, JobState.PENDING, pending_reason="no room", task_count=2), DETAIL_SECONDS)
    detail = job.take()
    assert (detail.pending_reason, detail.request_env, detail.band) == ("no room", {"A": "1"}, "batch")


def test_a_row_of_another_state_is_left_to_a_call_of_its_own():
    """The job changed between the two calls: its whole status is wanted."""
    job = waiting_long()
    job.hear(JobState.PENDING, DETAIL_SECONDS)
    job.learn_row(JobStatus(JOB, JobState.RUNNING), DETAIL_SECONDS)
    assert job.take() is None


def test_a_running_job_is_read_at_each_look_until_all_of_it_runs():
    """A replica is placed without a change of the job's state."""
    partly, wholly = running(1), running(2)
    for job in (partly, wholly):
        job.hear(JobState.RUNNING, 10)
    assert partly.take() is None
    assert wholly.take() is wholly.detail


def test_an_outage_is_an_error_of_its_own_for_each_job():
    """With the job's id; what is known of the job stays."""
    job, outage = job_in(JobState.PENDING), IrisUnavailableError("no answer", code="unavailable")
    job.hear(outage, 10)
    with pytest.raises(IrisUnavailableError, match="no answer") as raised:
        job.take()
    assert raised.value is not outage
    assert (raised.value.job_id, raised.value.code) == (JOB, "unavailable")
    assert job.detail is not None


def test_the_log_of_a_job_that_has_not_run_is_not_read():
    """There is none before a job leaves PENDING, and it never returns to it."""
    assert not job_in(JobState.PENDING).may_read_log(1000)
    assert running(0).may_read_log(0)


def test_a_job_that_prints_is_read_at_each_look():
    """However long it was silent before."""
    job = running(2)
    job.learn_log(EMPTY, 0)
    job.learn_log(PRINTED, 100)
    assert job.may_read_log(100)


def test_a_silent_job_is_read_less_and_less_often():
    """Up to a bound, and at once after its end."""
    job, now, pauses = running(2), 0.0, []
    for _ in range(8):
        job.learn_log(EMPTY, now)
        pause = next(second for second in range(100) if job.may_read_log(now + second))
        pauses.append(pause)
        now += pause
    assert pauses == sorted(pauses)
    assert pauses[0] == 1
    assert pauses[-1] == QUIET_SECONDS
    job.learn_log(EMPTY, now)
    job.learn(JobStatus(JOB, JobState.SUCCEEDED), now)
    assert job.may_read_log(now)
