"""LaunchJob: what is refused, with which code, and what is accepted although it cannot work."""

from __future__ import annotations

import pytest

from fray_airflow.iris._gen import controller_pb2, job_pb2
from fray_airflow.local import Fleet, Outcome
from fray_airflow.local.admission import MAX_BUNDLE_BYTES
from fray_airflow.local.wire_error import WireError

C = controller_pb2.Controller


def constraint(key, op, *values, value=None):
    made = job_pb2.Constraint(key=key, op=op)
    for each in values:
        made.values.add(string_value=each)
    if value is not None:
        made.value.string_value = value
    return made


EQ, EXISTS, GT, IN = (
    job_pb2.CONSTRAINT_OP_EQ,
    job_pb2.CONSTRAINT_OP_EXISTS,
    job_pb2.CONSTRAINT_OP_GT,
    job_pb2.CONSTRAINT_OP_IN,
)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        (
            {"coscheduling": job_pb2.CoschedulingConfig()},
            "invalid_argument",
            "coscheduling requires a non-empty group_by",
        ),
        ({"client_revision_date": "yesterday"}, "invalid_argument", "client_revision_date"),
        ({"client_revision_date": "2026-10-09"}, "failed_precondition", "marin-iris client is too old"),
        ({"priority_band": 5}, "invalid_argument", "Unknown priority_band 5; expected one of [0, 1, 2, 3, 4]"),
        ({"container_profile": 7}, "invalid_argument", "Unknown container profile 7; upgrade the controller"),
        ({"egress_policy": 4}, "invalid_argument", "Unknown egress policy 4"),
        ({"container_profile": 6, "egress_policy": 1}, "invalid_argument", "SANDBOX"),
        ({"container_profile": 6, "bundle_id": "x"}, "invalid_argument", "SANDBOX"),
        ({"federation": C.FederationHandoff()}, "permission_denied", "federation"),
        (
            {"bundle_blob": bytes(MAX_BUNDLE_BYTES + 1)},
            "invalid_argument",
            "Bundle size 25.0MB exceeds maximum 25MB",
        ),
        ({"environment": job_pb2.EnvironmentConfig(secrets={"a b": "x"})}, "invalid_argument", "secret name"),
        ({"constraints": [constraint("k", 77, value="x")]}, "internal", "77 is not a valid ConstraintOp"),
        ({"constraints": [constraint("k", IN)]}, "internal", "Constraint op IN requires 1..∞ values, got 0"),
        ({"constraints": [constraint("k", EQ)]}, "internal", "requires"),
        (
            {"constraints": [constraint("region", EQ, value="a"), constraint("region", EQ, value="b")]},
            "internal",
            "conflicting region",
        ),
        (
            {"constraints": [constraint("region", EQ, value="us-central2")]},
            "failed_precondition",
            "no groups in region us-central2",
        ),
        ({"constraints": [constraint("zone", EQ, value="z")]}, "failed_precondition", "no groups in zone z"),
        (
            {"constraints": [constraint("cluster", EQ, value="local")]},
            "invalid_argument",
            "pins cluster 'local', which is not a configured federation peer.",
        ),
        ({"constraints": [constraint("availability:v4-8", EXISTS)]}, "failed_precondition", "v4-8"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(iris, job, fields, code, text):
    """Each refusal has Iris's code, and many of the caller's mistakes come back as `internal`."""
    error = iris.refusal("LaunchJob", job(**fields))
    assert error.code == code
    assert text in error.message


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"tpu": "v5p-16", "chips": 8}, "invalid_argument", "TPU chip count mismatch"),
        ({"gpu": "A100-80G"}, "failed_precondition", "no scaling group provides device gpu:a100-80g (available: "),
        ({"tpu": "v4-8"}, "failed_precondition", "no scaling group provides device tpu:v4-8"),
        (
            {"tpu": "v5p-16", "require": {"preemptible": "false"}},
            "failed_precondition",
            "no non-preemptible group provides device tpu:v5p-16",
        ),
        ({"tpu": "v5p-16", "gang": "tpu-name", "replicas": 3}, "failed_precondition", "job requires 3 coscheduled"),
        ({"cores": 500}, "failed_precondition", "no matching scaling group has enough per-VM capacity: cpu (cpu: need"),
        ({"gpu": "h100", "gpus": 9}, "failed_precondition", "enough per-VM capacity"),
        ({"tpu": "v5p-8", "container_profile": 5}, "invalid_argument", "accelerators"),
        ({"band": "PRODUCTION"}, "permission_denied", "cannot submit production jobs (max band: interactive)"),
        ({"band": "SYSTEM"}, "permission_denied", "cannot submit system jobs (max band: interactive)"),
    ],
)
def test_what_the_fleet_cannot_give_is_refused(iris, job, fields, code, text):
    error = iris.refusal("LaunchJob", job(**fields))
    assert error.code == code
    assert text in error.message


def test_alternatives_of_unlike_shape_are_refused(iris, job):
    request = job(tpu="v5p-8", constraints=[constraint("device-variant", IN, "v5p-8", "v5p-16")])
    error = iris.refusal("LaunchJob", request)
    assert error.message.startswith("TPU variant alternatives have incompatible VM shapes")


@pytest.mark.parametrize(
    "fields",
    [
        {"cores": 0},
        {"resources": job_pb2.ResourceSpecProto(cpu_millicores=-5, memory_bytes=-1)},
        {"tpu": "v5p-16", "chips": 0},
        {"gpu": "auto"},
        {"container_profile": 4},
        {"client_revision_date": "20261010"},
        {"client_revision_date": "2030-01-01"},
        {"bundle_blob": bytes(MAX_BUNDLE_BYTES)},
        {"bundle_id": "unknown"},
        {"fail_if_exists": True},
        {"preemption_policy": 9},
        {"constraints": [constraint("anything", EQ, value="x")]},
        {"constraints": [constraint("availability:v5p-16", EXISTS)]},
        {"constraints": [constraint("device-type", GT, value="cpu")]},
        {"constraints": [constraint("region", EXISTS)]},
        {"constraints": [constraint("region", EQ, value="local"), constraint("region", IN, "local", "elsewhere")]},
    ],
)
def test_much_is_accepted_that_looks_wrong(iris, job, fields):
    assert iris.launch(job(**fields)) == "/a/j"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"replicas": 0}, "Job /a/j has invalid replicas=0; must be >= 1"),
        ({"replicas": -1}, "Job /a/j has invalid replicas=-1; must be >= 1"),
        ({"replicas": 10_001}, "replicas=10001 exceeds max 10000"),
    ],
)
def test_a_count_out_of_bounds_is_accepted_and_has_failed_already(iris, job, fields, text):
    """The launch answers with an id, and the job is FAILED without a single task."""
    iris.launch(job(**fields))
    status = iris.status("/a/j")
    assert (iris.state("/a/j"), status.task_count) == ("FAILED", 0)
    assert text in status.error
    assert status.pending_reason == status.error


def test_a_job_that_tolerates_less_than_no_failure_ends_when_it_is_placed(iris, job):
    """None of its tasks runs, and the machines are free for others."""
    iris.launch(job(tpu="v5p-16", replicas=2, gang="tpu-name", max_task_failures=-1))
    assert iris.until_ended("/a/j") == "FAILED"
    text = "Cumulative failed task attempts exceeded max_task_failures: failures=0, limit=-1"
    assert (iris.status("/a/j").error, iris.task_states("/a/j")) == (text, ["KILLED", "KILLED"])
    iris.run(2)
    assert not any(task.HasField("started_at") for task in iris.tasks("/a/j"))
    assert not any(worker.running_job_ids for worker in iris.workers().values())
    iris.script("k", *[Outcome.hang()] * 2)
    for name in ("/a/k", "/b/k"):
        iris.launch(job(name, tpu="v5p-16", replicas=2, gang="tpu-name"))
        iris.until_running(name)


@pytest.mark.parametrize("budget", ["max_retries_failure", "max_retries_preemption"])
def test_negative_retries_are_none(iris, job, budget):
    iris.script("j", Outcome.fail(1), Outcome.succeed())
    iris.launch(job(max_task_failures=5, **{budget: -1}))
    assert iris.until_ended("/a/j") == "FAILED"
    assert iris.status("/a/j").failure_count == 1


@pytest.mark.parametrize(
    ("rules", "code", "text"),
    [
        ([constraint("region", EXISTS)], "internal", "region constraint must use EQ or IN, got 2"),
        (
            [constraint("region", EQ, value="a"), constraint("region", IN, "b", "c")],
            "failed_precondition",
            "no groups in region a, b, c",
        ),
    ],
)
def test_where_no_group_has_a_region(make_iris, job, rules, code, text):
    """How a region is asked for matters only when nothing matches, because the refusal has to name it."""
    iris = make_iris(Fleet.of(cpu=1, region="", zone=""))
    error = iris.refusal("LaunchJob", job(constraints=rules))
    assert error.code == code
    assert text in error.message


def test_a_user_has_at_most_16000_active_tasks(iris, job):
    iris.launch(job("/rep/one", replicas=10_000, require={"nobody": "has"}))
    error = iris.refusal("LaunchJob", job("/rep/two", replicas=10_000))
    assert error.code == "resource_exhausted"
    assert error.message.startswith("Budget identity rep has 10000 active task(s); submitting")


def test_checks_come_in_the_order_of_iris(iris, job):
    """Secrets before the name, the name's presence before coscheduling, its form after, the fleet last."""
    bad_secret = job_pb2.EnvironmentConfig(secrets={"a b": "x"})
    empty_gang = job_pb2.CoschedulingConfig()
    assert "secret" in iris.refusal("LaunchJob", job("", environment=bad_secret)).message
    assert "required" in iris.refusal("LaunchJob", job("", coscheduling=empty_gang)).message
    assert "group_by" in iris.refusal("LaunchJob", job("noslash", coscheduling=empty_gang)).message
    assert "canonical" in iris.refusal("LaunchJob", job("noslash", tpu="v4-8")).message
    assert "band" in iris.refusal("LaunchJob", job("/a/none/child", priority_band=5)).message
    assert "absent" in iris.refusal("LaunchJob", job("/a/none/child", tpu="v4-8")).message


def test_a_refused_launch_leaves_the_existing_job_alone(iris, job):
    iris.launch(job("/a/j", require={"nobody": "has"}))
    iris.refusal("LaunchJob", job("/a/j", tpu="v4-8", policy="RECREATE"))
    assert iris.state("/a/j") == "PENDING"


def test_the_echo_shows_what_the_server_made_of_the_request(iris, job):
    """Defaults resolved, texts normalized, secrets hidden, files gone, and the launch token readable."""
    request = job(bundle_blob=b"zip", require={"Owner": " ALICE "})
    request.environment.env_vars.update({"HF_TOKEN": "s3cret", "FRAY_AIRFLOW_LAUNCH": "t0ken", "PLAIN": "p"})
    request.environment.secrets["WANDB_API_KEY"] = "s3cret"
    request.entrypoint.workdir_files["small.txt"] = b"x"
    request.entrypoint.workdir_files["large.bin"] = bytes(10 * 1024 + 1)
    iris.launch(request)
    echo = iris.echo("/a/j")
    assert echo.priority_band == job_pb2.PRIORITY_BAND_INTERACTIVE
    assert echo.egress_policy == job_pb2.EGRESS_POLICY_CLUSTER
    assert dict(echo.environment.env_vars) == {
        "HF_TOKEN": "[REDACTED]",
        "FRAY_AIRFLOW_LAUNCH": "t0ken",
        "PLAIN": "p",
    }
    assert dict(echo.environment.secrets) == {"WANDB_API_KEY": "[REDACTED]"}
    assert echo.constraints[0].value.string_value == "alice"
    assert (len(echo.bundle_id), echo.bundle_blob) == (64, b"")
    assert list(echo.entrypoint.workdir_file_refs) == ["large.bin"]
    assert not echo.entrypoint.workdir_files


def test_the_device_is_always_echoed(iris, job):
    iris.launch(job())
    assert iris.status("/a/j").resources.HasField("device")


def test_corrupt_bytes_are_an_unknown_error(iris):
    with pytest.raises(WireError) as caught:
        iris.cluster.handle("/iris.cluster.ControllerService/LaunchJob", b"\xff\xff\xff")
    assert caught.value.code == "unknown"


def test_an_empty_body_is_a_valid_request(iris):
    assert iris.cluster.handle("/iris.cluster.ControllerService/GetCurrentUser", b"") != b""
