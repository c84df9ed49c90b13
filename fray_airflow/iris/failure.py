"""What a call can end with instead of a reply, and which error of ours that is."""

from __future__ import annotations

from dataclasses import dataclass

from fray_airflow.errors import (
    IrisAuthError,
    IrisError,
    IrisUnavailableError,
    JobExistsError,
    JobNotFoundError,
    SubmissionRejectedError,
)
from fray_airflow.iris.calls import LAUNCH_JOB, Call

TRANSIENT = frozenset({"unavailable", "deadline_exceeded", "canceled", "aborted"})
"""Answers that say nothing about the request: the same call may succeed a moment later.

`internal` is not among them. Iris answers it to bad input too, so a hopeless request would be sent for ever.
"""


@dataclass(eq=False)
class WireFailure(Exception):
    """A status that is not OK. `code` is the status in lower case, the same from gRPC and Connect.

    `hint` is advice of the carrier, which may know more than the status says.
    """

    code: str
    message: str
    hint: str = ""

    @property
    def transient(self) -> bool:
        return self.code in TRANSIENT


def to_error(failure: WireFailure, call: Call, where: str, job_id: str = "") -> IrisError:
    """The error that people see: what was asked of whom, what it answered, what to do."""
    kind, advice = _kind(failure, call)
    advice = failure.hint or advice
    text = f"{where} {_verb(failure)} {call.name}{f' of {job_id}' if job_id else ''}: {failure.code}"
    message = " ".join(failure.message.split())
    return kind(f"{text}: {message}. {advice}" if message else f"{text}. {advice}", job_id=job_id, code=failure.code)


def _verb(failure: WireFailure) -> str:
    return "did not answer" if failure.code in ("unavailable", "deadline_exceeded") else "refused"


def _kind(failure: WireFailure, call: Call) -> tuple[type[IrisError], str]:
    code, launching = failure.code, call is LAUNCH_JOB
    if code == "unauthenticated":
        return IrisAuthError, "Check the token (the connection's password)."
    if code == "permission_denied":
        return IrisAuthError, "The user of this connection may not do that; ask for the right or change the request."
    if code == "already_exists":
        return JobExistsError, "Choose another job_name, or wait until that job is forgotten."
    if launching and code == "resource_exhausted":
        return SubmissionRejectedError, "The user has too many active tasks; wait for some to end."
    # A hint means that something else than Iris seems to answer, which has refused nothing.
    if launching and not failure.transient and not failure.hint:
        return SubmissionRejectedError, _launch_advice(failure)
    if code == "not_found":
        return JobNotFoundError, "It was never submitted there, or it ended more than 7 days ago."
    if failure.transient:
        return IrisUnavailableError, "Check that the controller runs and that the address and port are right."
    return IrisError, "The controller's own log says more."


def _launch_advice(failure: WireFailure) -> str:
    if "client is too old" in failure.message:
        return "Upgrade fray-airflow."
    if "unschedulable" in failure.message or "provides device" in failure.message:
        return "The cluster has no such machines: change resource_config, or the cluster's scaling groups."
    return "Change the request; sending it again gives the same answer."
