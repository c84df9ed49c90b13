"""How much of a long log is read before the job itself is looked at again."""

from datetime import timedelta

import pytest
from known_launch import JOB_ID, T0, at, plan, status, task

from fray_airflow.errors import IrisUnavailableError
from fray_airflow.lifecycle import (
    Conversation,
    Finish,
    ReadLogs,
    ReadStatus,
    ReadTasks,
    ReadWorkers,
    Seen,
    Stop,
    Submit,
    Terminate,
    Wait,
    learn,
)
from fray_airflow.lifecycle.learn import MOST_PAGES
from fray_airflow.logs import LogCursor, LogLine, LogPage
from fray_airflow.states import JobState, TaskState


class Backlog:
    """A job with `pages` full pages of log, watched by a clock on which each page takes a second to read."""

    def __init__(self, pages, *, ends_after=None, **options):
        self.left, self.now, self.ends_after = pages, T0, ends_after
        self.lines, self.actions = [], []
        seen = learn(Seen(found={JOB_ID: None}), Submit(plan().job), JOB_ID, T0)
        self.talk = Conversation(plan(**options), seen, clock=lambda: self.now, tell=lambda *_: None)
        self.away = False

    def run(self, until):
        """Until `until(self, action)`; returns that action."""
        for _ in range(10_000):
            action = self.talk.next()
            self.actions.append(action)
            if until(self, action):
                return action
            self.talk.hear(action, self._reply(action))
        raise AssertionError("it never came to that")

    def _reply(self, action):
        match action:
            case ReadStatus() if self.away:
                return IrisUnavailableError("away", code="unavailable")
            case ReadStatus():
                ended = self.ends_after is not None and self.now >= at(self.ends_after)
                return status(JobState.SUCCEEDED if ended else JobState.RUNNING)
            case ReadTasks():
                return [task(0, TaskState.RUNNING)]
            case ReadWorkers():
                return []
            case ReadLogs(cursor):
                self.now += timedelta(seconds=1)
                return self._page(cursor)
            case Wait(seconds):
                self.now += timedelta(seconds=seconds)
        return None

    def _page(self, cursor):
        if not self.left:
            return LogPage((), cursor)
        self.left -= 1
        number = cursor.seq + 1
        self.lines.append(number)
        return LogPage((LogLine(0, 0, str(number)),), LogCursor(JOB_ID, seq=number), full=True)

    @property
    def longest_row(self):
        """Of pages, without a look at the job between them."""
        longest = row = 0
        for action in self.actions:
            row = row + 1 if isinstance(action, ReadLogs) else 0 if isinstance(action, ReadStatus) else row
            longest = max(longest, row)
        return longest


def finished(_, action):
    return isinstance(action, Finish)


@pytest.mark.parametrize("ends_after", [0, 25, 95])
def test_a_long_log_is_read_whole_with_a_look_at_the_job_every_few_pages(ends_after):
    """Also after the job has ended, however long ago."""
    backlog = Backlog(100, ends_after=ends_after)
    assert backlog.run(finished).error is None
    assert backlog.lines == list(range(1, 101))
    assert backlog.longest_row == MOST_PAGES


def test_the_end_of_a_job_is_seen_while_its_log_is_still_read():
    """At the next look; its time limit then counts no more."""
    backlog = Backlog(100, ends_after=5, deadline=at(50))
    backlog.run(lambda each, _: each.talk.seen.finished_at is not None)
    assert len(backlog.lines) == MOST_PAGES
    assert backlog.run(finished).error is None
    assert len(backlog.lines) == 100


def test_a_deadline_that_passes_amid_a_long_log_ends_the_job():
    """It does not wait for the rest of the pages."""
    backlog = Backlog(1000, deadline=at(35))
    backlog.run(lambda _, action: isinstance(action, Terminate))
    assert len(backlog.lines) <= 35 + MOST_PAGES


def test_a_kill_amid_a_long_log_ends_the_job_before_the_next_page():
    backlog = Backlog(1000)
    backlog.run(lambda each, _: len(each.lines) == 5)
    backlog.talk.interrupt(Stop.KILLED)
    backlog.talk.hear(backlog.actions[-1], LogPage((), LogCursor(JOB_ID, seq=5)))
    assert isinstance(backlog.talk.next(), Terminate)


def test_an_outage_amid_a_long_log_is_noticed():
    """A log service may still answer then. The rest is read when the controller is back."""
    backlog = Backlog(40)
    backlog.run(lambda each, _: len(each.lines) == 5)
    backlog.away = True
    backlog.run(lambda each, _: each.talk.seen.away_since is not None)
    assert len(backlog.lines) == MOST_PAGES
    backlog.away, backlog.ends_after = False, 0
    backlog.run(finished)
    assert backlog.lines == list(range(1, 41))
