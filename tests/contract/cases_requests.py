"""LaunchJob, field by field: what is refused, what fails at once, what is kept."""

from __future__ import annotations

import hashlib

import pytest
from casebook import case
from iris_under_test import CPU_HOST, NEVER, SLEEP, SMALL, Iris, gpu, tpu

from fray_airflow.errors import IrisError
from fray_airflow.identity import LAUNCH_ENV
from fray_airflow.iris import calls
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris.operations import Operation

MAX_BUNDLE = 25 * 1024**2
KEEP = job_pb2.EXISTING_JOB_POLICY_KEEP


@case
def smallest_request(iris: Iris) -> None:
    """A name and a count are a request; without a command the task fails."""
    job_id = iris.call(calls.LAUNCH_JOB, name=f"/{iris.user}/job", replicas=1).job_id
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED
    task = iris.task(job_id)
    assert task.exit_code == 1
    assert "IndexError" in task.error


@case
def replicas_out_of_bounds(iris: Iris) -> None:
    """A job without replicas, or with too many, is accepted and has failed at once."""
    faults = {0: "invalid replicas=0; must be >= 1", -1: "invalid replicas=-1; must be >= 1"}
    for count, fault in {**faults, 10_001: "replicas=10001 exceeds max 10000"}.items():
        job = iris.job(iris.launch(f"with-{count}", replicas=count))
        assert (job.state, job.task_count) == (job_pb2.JOB_STATE_FAILED, 0)
        assert fault in job.error
    unset = {key: value for key, value in iris.request("unset").items() if key != "replicas"}
    assert iris.job(iris.call(calls.LAUNCH_JOB, **unset).job_id).state == job_pb2.JOB_STATE_FAILED


@case
def budgets_negative(iris: Iris) -> None:
    """A negative budget of task failures fails the job before it runs; negative retries are none."""
    job = iris.finished(iris.launch("failures", max_task_failures=-1))
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 0)
    assert job.error == "Cumulative failed task attempts exceeded max_task_failures: failures=0, limit=-1"
    for budget in ("max_retries_failure", "max_retries_preemption"):
        assert iris.finished(iris.launch(budget, **{budget: -1})).state == job_pb2.JOB_STATE_SUCCEEDED
        job = iris.finished(iris.launch(f"{budget}-2", ("false",), **{budget: -1}))
        assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 1)


@case
def budgets_echo(iris: Iris) -> None:
    """The budgets of a job are its own, 0 unless given."""
    budgets = {"max_retries_failure": 3, "max_retries_preemption": 100, "max_task_failures": 2}
    echo = iris.echo(iris.launch("given", **budgets))
    assert {name: getattr(echo, name) for name in budgets} == budgets
    echo = iris.echo(iris.launch("not-given"))
    assert {name: getattr(echo, name) for name in budgets} == dict.fromkeys(budgets, 0)


@case
def cpu_job_device(iris: Iris) -> None:
    """A CPU job's status has a device, which is empty."""
    job = iris.job(iris.launch())
    assert job.resources.HasField("device")
    assert job.resources.device.WhichOneof("device") is None
    assert (job.resources.cpu_millicores, job.resources.memory_bytes) == (100, SMALL["memory_bytes"])


@case
def resources_zero(iris: Iris) -> None:
    """A task may ask for nothing."""
    job_id = iris.launch(resources={"cpu_millicores": 0, "memory_bytes": 0, "disk_bytes": 0})
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def resources_too_large(iris: Iris) -> None:
    """What no machine has is refused: processors, memory, disk."""
    for name, amount in (("cpu_millicores", 10**7), ("memory_bytes", 2**50), ("disk_bytes", 2**55)):
        refusal = iris.refused_launch(resources={**SMALL, name: amount})
        assert refusal.code == "failed_precondition", name
        assert "is unschedulable: no matching scaling group has enough per-VM capacity" in str(refusal)
        assert f"{name.partition('_')[0]}: need" in str(refusal)


@case
def secret_names(iris: Iris) -> None:
    """A secret's name is of letters, digits, underscore, dot and dash; its value is never shown again."""
    assert iris.refused_launch(environment={"secrets": {"not a name": "x"}}).code == "invalid_argument"
    echo = iris.echo(iris.launch(environment={"secrets": {"a.name-0_K": "hidden"}}))
    assert dict(echo.environment.secrets) == {"a.name-0_K": "[REDACTED]"}


@case
def env_echo(iris: Iris) -> None:
    """Variables are echoed, but for those that are called like secrets."""
    hidden = ("HF_TOKEN", "MY_PASSWORD", "DB_PWD", "CLIENT_SECRET", "WANDB_API_KEY", "SSH_PRIVATE_KEY", "SESSION")
    shown = ("PLAIN", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "AUTHOR", "CACHE_KEY", "wandbName")
    variables = {"EMPTY": "", **dict.fromkeys((*hidden, *shown), "value")}
    echo = iris.echo(iris.launch(environment={"env_vars": variables}))
    assert dict(echo.environment.env_vars) == {**variables, **dict.fromkeys(hidden, "[REDACTED]")}


@case
def env_echo_of_keys(iris: Iris) -> None:
    """A value that looks like a key, of 24 characters or more, is redacted, except under names of identifiers."""
    key = "0123456789abcdefghijklmn"
    hidden = {"A": key, "B": f"{key}01234567", "C": "sk-abcdefghijklmnopqrstuvwx"}
    shown = {
        "SHORT": key[:-1],
        "SAME": "a" * 40,
        "RUN_ID": key,
        "WORDS": f"hello {key} there",
        LAUNCH_ENV: "0123456789ab.cdef01234567",
    }
    partly = {"URL_IN": f"s3:{key}01234567"}
    echo = iris.echo(iris.launch(environment={"env_vars": {**hidden, **shown, **partly}}))
    assert dict(echo.environment.env_vars) == {
        **dict.fromkeys(hidden, "[REDACTED]"),
        **shown,
        "URL_IN": "s3:[REDACTED]",
    }


@case
def command_echo(iris: Iris) -> None:
    """Command, image, ports and argv of the submitter are kept and echoed."""
    echo = iris.echo(iris.launch(argv=("true", "--x"), task_image="image:1", submit_argv=["a", "b"], ports=["jax"]))
    assert list(echo.entrypoint.run_command.argv) == ["true", "--x"]
    assert (echo.task_image, list(echo.submit_argv), list(echo.ports)) == ("image:1", ["a", "b"], ["jax"])
    assert echo.replicas == 1


@case
def files_echo(iris: Iris) -> None:
    """The contents of files are not echoed; files above 10 KiB are kept by their hash."""
    files = {"small.txt": b"x", "large.bin": b"y" * 10_241, "limit.bin": b"z" * 10_240}
    entrypoint = {"run_command": {"argv": ["true"]}, "workdir_files": files}
    echo = iris.echo(iris.launch(entrypoint=entrypoint)).entrypoint
    assert dict(echo.workdir_files) == {}
    assert dict(echo.workdir_file_refs) == {"large.bin": hashlib.sha256(files["large.bin"]).hexdigest()}


@case
def bundle_size(iris: Iris) -> None:
    """A bundle may have 25 MiB and no byte more. It is kept by its hash and not echoed."""
    bundle = bytes(MAX_BUNDLE)
    echo = iris.echo(iris.launch("fits", constraints=NEVER, bundle_blob=bundle))
    assert (echo.bundle_id, echo.bundle_blob) == (hashlib.sha256(bundle).hexdigest(), b"")
    refusal = iris.refused_launch("too-large", constraints=NEVER, bundle_blob=bundle + b"x")
    assert refusal.code == "invalid_argument"
    assert "Bundle size 25.0MB exceeds maximum 25MB" in str(refusal)


@case
def bundle_not_a_zip(iris: Iris) -> None:
    """A bundle that is no zip, or that nobody has sent, is accepted, and fails the task."""
    for name, fields in {"no-zip": {"bundle_blob": b"no zip"}, "unknown": {"bundle_id": "0" * 64}}.items():
        job_id = iris.launch(name, **fields)
        assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED
        assert iris.task(job_id).error


@case
def file_paths(iris: Iris) -> None:
    """A file outside the work folder is accepted, and fails the task."""
    for number, path in enumerate(("/absolute", "../up", "a/../../up", "")):
        entrypoint = {"run_command": {"argv": ["true"]}, "workdir_files": {path: b"x"}}
        job_id = iris.launch(f"job-{number}", entrypoint=entrypoint)
        assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED, path
        assert "Invalid workdir file path" in iris.task(job_id).error


@case
def bands(iris: Iris) -> None:
    """The band is INTERACTIVE unless given. Higher ones need the right, unknown ones are refused."""
    assert iris.echo(iris.launch("default")).priority_band == job_pb2.PRIORITY_BAND_INTERACTIVE
    batch = iris.launch("batch", priority_band=job_pb2.PRIORITY_BAND_BATCH)
    assert iris.echo(batch).priority_band == job_pb2.PRIORITY_BAND_BATCH
    for band in (job_pb2.PRIORITY_BAND_PRODUCTION, job_pb2.PRIORITY_BAND_SYSTEM):
        refusal = iris.refused_launch(priority_band=band)
        assert refusal.code == "permission_denied"
        assert f"{iris.user} cannot submit" in str(refusal)
    refusal = iris.refused_launch(priority_band=5)
    assert refusal.code == "invalid_argument"
    assert "Unknown priority_band 5; expected one of [0, 1, 2, 3, 4]" in str(refusal)


@case
def bands_of_what_runs(iris: Iris) -> None:
    """The scheduler tells the band of each job that runs, and nothing of others."""
    asked = {"default": job_pb2.PRIORITY_BAND_INTERACTIVE, "batch": job_pb2.PRIORITY_BAND_BATCH}
    jobs = [iris.launch(name, SLEEP, constraints=[CPU_HOST], priority_band=band) for name, band in asked.items()]
    waiting = iris.launch("waiting", constraints=NEVER)
    for job_id in jobs:
        iris.running(job_id)
    assert iris.client.bands([*jobs, waiting]) == dict(zip(jobs, ["interactive", "batch"], strict=True))


@case
def container_profiles(iris: Iris) -> None:
    """Unknown profiles are refused, and sandboxes with accelerators or a bundle."""
    for profile in range(7):
        assert iris.echo(iris.launch(f"profile-{profile}", container_profile=profile)).container_profile == profile
    refusal = iris.refused_launch(container_profile=7)
    assert refusal.code == "invalid_argument"
    assert "Unknown container profile 7" in str(refusal)
    sandbox, gvisor = job_pb2.CONTAINER_PROFILE_SANDBOX, job_pb2.CONTAINER_PROFILE_GVISOR
    for fields in (
        {"container_profile": sandbox, "resources": tpu("v5p-8")},
        {"container_profile": gvisor, "resources": gpu("h100", 1)},
        {"container_profile": sandbox, "bundle_blob": b"x"},
        {"container_profile": sandbox, "egress_policy": job_pb2.EGRESS_POLICY_CLUSTER},
    ):
        assert iris.refused_launch(**fields).code == "invalid_argument", fields


@case
def egress(iris: Iris) -> None:
    """The egress policy is CLUSTER unless given, and INTERNET for a sandbox; unknown ones are refused."""
    assert iris.echo(iris.launch("default")).egress_policy == job_pb2.EGRESS_POLICY_CLUSTER
    sandbox = iris.launch("sandbox", container_profile=job_pb2.CONTAINER_PROFILE_SANDBOX)
    assert iris.echo(sandbox).egress_policy == job_pb2.EGRESS_POLICY_INTERNET
    refusal = iris.refused_launch(egress_policy=4)
    assert refusal.code == "invalid_argument"
    assert "Unknown egress policy 4" in str(refusal)


@case
def client_date(iris: Iris) -> None:
    """A client's build date may be empty, future or recent; an old one and no date at all are refused."""
    for number, date in enumerate(("", "2099-01-01", "20990101")):
        assert iris.launch(f"job-{number}", client_revision_date=date)
    refusal = iris.refused_launch(client_revision_date="2020-01-01")
    assert refusal.code == "failed_precondition"
    assert "marin-iris client is too old" in str(refusal)
    assert iris.refused_launch(client_revision_date="yesterday").code == "invalid_argument"
    parent = iris.launch("parent", SLEEP)
    assert iris.launch(f"{parent}/child", client_revision_date="2020-01-01")
    iris.terminate(parent)


@case
def fail_if_exists_is_dead(iris: Iris) -> None:
    """`fail_if_exists` changes nothing; the policy counts."""
    job_id = iris.launch("job", SLEEP)
    assert iris.launch("job", fail_if_exists=True, existing_job_policy=KEEP) == job_id
    iris.terminate(job_id)


@case
def refusal_leaves_the_old_job_alone(iris: Iris) -> None:
    """A request that is refused does not touch the job of that name."""
    job_id = iris.launch("job", SLEEP)
    before = iris.job(job_id).submitted_at
    recreate = job_pb2.EXISTING_JOB_POLICY_RECREATE
    assert iris.refused_launch("job", priority_band=5, existing_job_policy=recreate).code == "invalid_argument"
    after = iris.job(job_id)
    assert after.submitted_at == before
    assert after.state in (job_pb2.JOB_STATE_PENDING, job_pb2.JOB_STATE_RUNNING)
    iris.terminate(job_id)


@case
def unknown_fields_and_garbage(iris: Iris) -> None:
    """Fields that a controller does not know are ignored; bytes that are no protobuf are an error."""

    def send(request: bytes) -> bytes:
        return iris.client.run(Operation(calls.GET_JOB_STATE, request, bytes))

    # Field 1000, a varint.
    assert send(b"\xc0\x3e\x01") == b""
    assert send(b"") == b""
    with pytest.raises(IrisError) as caught:
        send(b"\x0a\xff")
    assert caught.value.code == "unknown"
