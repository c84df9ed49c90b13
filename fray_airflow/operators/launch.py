"""One task instance's launch on a worker: the sync driver of the lifecycle machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fray_airflow import clock
from fray_airflow.errors import IrisAuthError, IrisError, IrisUnavailableError, JobNotFoundError
from fray_airflow.hooks import IrisHook
from fray_airflow.lifecycle import Action, Conversation, Finish, Plan, Seen, Stop, Submit, Wait
from fray_airflow.operators.rungs import RungJob

if TYPE_CHECKING:
    from fray_airflow.iris import IrisClient

HURRY_SECONDS = 2.0
"""For a call out of a signal handler: a task runner has five seconds from SIGTERM to SIGKILL."""

_SLICE_SECONDS = 0.2
_JITTER = 0.1


class Launch:
    """Carries out what the machine says, with the author's code and files at hand.

    `resumed` is what a trigger that had to submit left of the launch. `publish` is told each job that is launched or
    adopted, as soon as it is known.
    `end` and `leave` are for signal handlers, which interrupt the other methods anywhere.
    """

    def __init__(
        self,
        hook: IrisHook,
        rungs: Sequence[RungJob],
        plan: Plan,
        *,
        base: Path,
        tell: Callable[[int, str], None],
        publish: Callable[[Sequence[str]], None] = lambda _: None,
        resumed: Mapping[str, Any] | None = None,
    ) -> None:
        self._hook = hook
        self._client: IrisClient = hook.get_conn()
        self._rungs = rungs
        self._base = base
        self._publish = publish
        self._published = ""
        self._left = False
        self._renewed = False
        self.talk = (
            Conversation(plan, Seen(), clock=clock.now, tell=tell)
            if resumed is None
            else Conversation.resume(resumed, clock=clock.now, tell=tell)
        )

    @property
    def job_id(self) -> str:
        """ "" until the job is submitted or adopted."""
        return self.talk.seen.job_id

    @property
    def server(self) -> str:
        """The controller's host and port."""
        return self._client.options.target.authority

    def run(self, *, leave: Callable[[Action], bool] = lambda _: False) -> Finish | None:
        """Lets the machine run to its end. `leave` may break off before an action; then there is no end."""
        while not isinstance(action := self.talk.next(), Finish):
            if leave(action):
                return None
            if isinstance(action, Wait):
                self._pause(action.seconds)
                self.talk.hear(action, None)
            else:
                self.talk.hear(action, self._perform(action))
            self._tell_of_jobs()
        return action

    def _tell_of_jobs(self) -> None:
        if self.job_id and self.job_id != self._published:
            self._published = self.job_id
            self._publish(self.talk.live_jobs() or [self.job_id])

    def end(self, stop: Stop) -> None:
        """Ends the job, now if it can be reached at once, else as soon as `run` goes on."""
        self.talk.interrupt(stop)
        if not (job_ids := self.talk.live_jobs()):
            return
        try:
            with self._client.hurried(HURRY_SECONDS) as client:
                told = [_was_told(client, job_id) for job_id in job_ids]
        except IrisError:
            return
        # Not there yet, or no answer: the machine terminates when it has its turn.
        if all(told):
            self.talk.terminated()

    def leave(self) -> None:
        """Makes `run` raise at its next pause: the job goes on, and the next try adopts it."""
        self._left = True

    def _perform(self, action: Any) -> Any:
        """The reply, or the IrisError that came instead of it."""
        try:
            return self._submit(action) if isinstance(action, Submit) else action.on(self._client)
        except IrisAuthError as error:
            if error.code != "unauthenticated" or self._renewed:
                return error
            # A token may have been replaced while we watched: read the connection again, once.
            self._renewed = True
            self._client = IrisHook(self._hook.iris_conn_id).get_conn()
            return self._perform(action)
        except IrisError as error:
            return error

    def _submit(self, action: Submit) -> str:
        from fray_airflow.iris.launch import ERROR, RECREATE
        from fray_airflow.iris.submission import prepare

        rung = self._rungs[action.round.rung]
        request = prepare(
            rung.request(action),
            user=action.job.job_id.split("/")[1],
            base=self._base,
            token=action.job.token,
            marks=rung.marks(action) if self.talk.plan.has_rounds else {},
            gpu_gang_level=rung.gpu_gang_level or self._client.options.gpu_gang_level,
            existing_job_policy=RECREATE if action.replace else ERROR,
        )
        return self._client.launch(request)

    def _pause(self, seconds: float) -> None:
        """In slices, since a signal does not cut a sleep short, and with jitter, so that many tasks spread out."""
        until = clock.monotonic() + seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
        while (left := until - clock.monotonic()) > 0:
            if self._left:
                raise IrisUnavailableError(
                    f"This worker was told to stop. {self.job_id} goes on, and the next try of this task adopts it.",
                    job_id=self.job_id,
                )
            if self.talk.is_interrupted:
                return
            clock.sleep(min(left, _SLICE_SECONDS))


def _was_told(client: IrisClient, job_id: str) -> bool:
    """False for a job that is not there; the others of its launch are to be told all the same."""
    try:
        client.terminate(job_id)
    except JobNotFoundError:
        return False
    return True
