"""A name that a job already has: policy by state of that job."""

from __future__ import annotations

from casebook import add_case
from iris_under_test import NEVER, SLEEP, Iris

from fray_airflow.iris._gen import job_pb2

POLICIES = {
    "unspecified": job_pb2.EXISTING_JOB_POLICY_UNSPECIFIED,
    "error": job_pb2.EXISTING_JOB_POLICY_ERROR,
    "keep": job_pb2.EXISTING_JOB_POLICY_KEEP,
    "recreate": job_pb2.EXISTING_JOB_POLICY_RECREATE,
    "unknown": 9,
}
STATES = ("pending", "running", "succeeded", "failed", "killed")
ACTIVE = ("pending", "running")


def _job_in(state: str, iris: Iris) -> job_pb2.JobStatus:
    argv = {"running": SLEEP, "killed": SLEEP, "failed": ("false",)}.get(state, ("true",))
    job_id = iris.launch("job", argv, constraints=NEVER if state == "pending" else [])
    if state in ("running", "killed"):
        iris.running(job_id)
    if state == "killed":
        iris.terminate(job_id)
    return iris.job(job_id) if state in ACTIVE else iris.finished(job_id)


def _outcome(policy: str, state: str) -> str:
    if policy == "error":
        return "refused"
    if state in ACTIVE:
        return {"keep": "kept", "recreate": "replaced"}.get(policy, "refused")
    return "replaced"


def _existing(policy: str, state: str):
    def run(iris: Iris) -> None:
        before = _job_in(state, iris)
        assert before.state == getattr(job_pb2, f"JOB_STATE_{state.upper()}")
        again = iris.request("job", existing_job_policy=POLICIES[policy], submit_argv=["again"])
        outcome = _outcome(policy, state)
        if outcome == "refused":
            refusal = iris.refused_launch(**again)
            assert refusal.code == "already_exists"
            still = f"(state=JOB_STATE_{state.upper()})" if policy == "error" else "and is still running"
            assert f"Job {before.job_id} already exists {still}" in str(refusal)
        else:
            assert iris.launch(**again) == before.job_id
        after = iris.describe(before.job_id)
        assert list(after.request.submit_argv) == (["again"] if outcome == "replaced" else [])
        if outcome == "replaced":
            assert after.job.submitted_at.epoch_ms > before.submitted_at.epoch_ms
            assert iris.finished(before.job_id).state == job_pb2.JOB_STATE_SUCCEEDED
        else:
            assert after.job.submitted_at == before.submitted_at
            iris.terminate(before.job_id)

    return run


for _policy in POLICIES:
    for _state in STATES:
        add_case(
            f"existing-{_state}-{_policy}",
            f"With policy {_policy}, a {_state} job of that name is {_outcome(_policy, _state)}.".replace(
                "is refused", "makes the request refused"
            ),
            _existing(_policy, _state),
        )
