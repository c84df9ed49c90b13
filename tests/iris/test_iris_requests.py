"""From specs to launch requests."""

from __future__ import annotations

import dataclasses

import golden_jobs
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import GPU_MODELS, job_requests, resource_configs

from fray_airflow import CpuConfig, Entrypoint, EnvironmentConfig, GpuConfig, JobRequest, ResourceConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import (
    build_launch_request,
    convert_constraints,
    convert_entrypoint,
    convert_environment,
    convert_resources,
    resolve_coscheduling,
)
from fray_airflow.iris._gen import job_pb2
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.convert import multiprocess_argv, setup_scripts
from fray_airflow.iris.launch import ERROR, read_code
from fray_airflow.units import parse_bytes

GOLDEN = golden_jobs.requests()
ECHO = Entrypoint.from_binary("echo")


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_request_is_made_to_the_letter(name):
    """Not so on purpose? Run `python tests/iris/regenerate_golden.py` and read the difference."""
    text = golden_jobs.kept()[name]
    assert golden_jobs.as_text(GOLDEN[name]) == text
    assert text_format.Parse(text, Controller.LaunchJobRequest(), descriptor_pool=None) == GOLDEN[name]


def test_every_file_in_the_golden_folder_is_made():
    assert golden_jobs.kept().keys() == GOLDEN.keys()


def made(job: JobRequest) -> Controller.LaunchJobRequest:
    """With a level for GPU gangs, since not every number of hosts has one by default."""
    return build_launch_request(job, user="me", gpu_gang_level="leafgroup")


@settings(max_examples=40)
@given(job_requests())
def test_every_valid_job_makes_a_request_that_survives_the_wire(job):
    request = made(job)
    again = Controller.LaunchJobRequest.FromString(request.SerializeToString())
    assert again == request
    assert again.SerializeToString(deterministic=True) == made(job).SerializeToString(deterministic=True)


@settings(max_examples=40)
@given(job_requests())
def test_what_the_author_asked_for_is_in_the_request(job):
    request = made(job)
    assert request.name == f"/me/{job.name}"
    assert request.replicas == job.replica_count >= 1
    assert request.existing_job_policy == ERROR
    assert list(request.entrypoint.run_command.argv)[-len(job.entrypoint.command) :] == list(job.entrypoint.command)
    assert (request.max_retries_failure, request.max_task_failures) == (job.max_retries_failure, job.max_task_failures)
    assert request.max_retries_preemption == job.max_retries_preemption
    assert request.priority_band == job.priority_band
    assert tuple(request.ports) == job.ports
    assert request.HasField("timeout") == (job.timeout is not None)
    assert not request.HasField("timeout") or request.timeout.milliseconds >= 1
    if job.environment:
        assert job.environment.env_vars.items() <= dict(request.environment.env_vars).items()
        assert dict(request.environment.secrets) == dict(job.environment.secrets)


@settings(max_examples=40)
@given(job_requests())
def test_fields_that_older_controllers_do_not_know_are_left_out(job):
    request = made(job)
    for name in ("client_revision_date", "federation", "egress_policy", "bundle_id", "bundle_blob", "fail_if_exists"):
        assert not request.HasField(name)
    assert request.HasField("container_profile") == (job.resources.container_profile is not None)


@settings(max_examples=40)
@given(job_requests(), st.dictionaries(st.sampled_from(["A", "JAX_PLATFORMS"]), st.text("xyz"), min_size=1))
def test_the_callers_variables_win_over_all_others(job, env):
    request = build_launch_request(job, gpu_gang_level="x", env=env)
    assert env.items() <= dict(request.environment.env_vars).items()


@pytest.mark.parametrize("user", ["", " ", "a/b", "/"])
def test_a_user_with_a_slash_is_refused(user):
    with pytest.raises(InvalidSpecError, match="user="):
        build_launch_request(JobRequest(name="x", entrypoint=ECHO), user=user)


@settings(max_examples=60)
@given(resource_configs())
def test_resources_are_millicores_bytes_and_a_device(resources):
    spec = convert_resources(resources)
    least = 1 if isinstance(resources.device, CpuConfig) else 4000
    assert spec.cpu_millicores == max(least, int(resources.cpu * 1000))
    assert (spec.memory_bytes, spec.disk_bytes) == (parse_bytes(resources.ram), parse_bytes(resources.disk))
    assert spec.device.WhichOneof("device") == {"cpu": None}.get(resources.device.kind, resources.device.kind)


def test_a_known_tpu_request():
    spec = convert_resources(ResourceConfig.with_tpu("v5p-16"))
    assert (spec.cpu_millicores, spec.memory_bytes, spec.disk_bytes) == (104000, 240518168576, 53687091200)
    assert (spec.device.tpu.variant, spec.device.tpu.count) == ("v5p-16", 4)
    assert not spec.device.tpu.HasField("topology")


def test_a_topology_that_the_author_names_is_sent():
    spec = convert_resources(ResourceConfig(device=TpuConfig("v5p-16", topology="2x2x2")))
    assert spec.device.tpu.topology == "2x2x2"


@settings(max_examples=60)
@given(resource_configs())
def test_a_constraint_is_required_and_holds_values_of_its_operator(resources):
    constraints = convert_constraints(resources)
    for constraint in constraints:
        assert constraint.mode == job_pb2.CONSTRAINT_MODE_REQUIRED
        if constraint.op == job_pb2.CONSTRAINT_OP_EQ:
            assert constraint.value.string_value
            assert not constraint.values
        else:
            assert constraint.op == job_pb2.CONSTRAINT_OP_IN
            assert len(constraint.values) > 1
    keys = [constraint.key for constraint in constraints]
    assert keys == sorted(set(keys), key=["preemptible", "region", "zone", "cluster", "device-variant"].index)
    assert ("region" in keys) == (resources.regions not in (None, ("*",)))


@pytest.mark.parametrize(
    ("resources", "replicas", "level"),
    [
        (ResourceConfig.with_cpu(), 8, None),
        (ResourceConfig.with_tpu("v5p-8"), 2, None),
        (ResourceConfig.with_tpu("v5p-16"), 2, "tpu-name"),
        (ResourceConfig.with_tpu("v5p-16"), 1, None),
        (ResourceConfig.with_tpu("v5litepod-8"), 4, None),
        (ResourceConfig.with_gpu("H100", 8), 1, None),
        (ResourceConfig.with_gpu("H100", 8), 2, "leafgroup"),
        (ResourceConfig.with_gpu("H100", 1), 10_000, "leafgroup"),
        (ResourceConfig.with_gpu("H100", device_alternatives=["A10"]), 2, "leafgroup"),
        (ResourceConfig.with_gpu("GB200", 1), 2, "nvlink.domain"),
        (ResourceConfig.with_gpu("gb300-nvl72", 4), 16, "nvlink.domain"),
        (ResourceConfig.with_gpu("GB200", 4), 20, "nvlink.domain.sliced"),
        (ResourceConfig.with_gpu("GB200", 4), 32, "nvlink.domain.sliced"),
        (ResourceConfig.with_gpu("GB200", 4, device_alternatives=["GB300"]), 48, "nvlink.domain.sliced"),
        (ResourceConfig.with_gpu("GB200", 4, device_alternatives=["GB300"]), 2, "nvlink.domain"),
    ],
)
def test_what_the_replicas_of_a_gang_share(resources, replicas, level):
    coscheduling = resolve_coscheduling(resources, replicas)
    assert (coscheduling.group_by if coscheduling else None) == level


@pytest.mark.parametrize(
    ("count", "replicas", "faults"), [(4, 17, 1), (4, 18, 1), (8, 32, 1), (8, 17, 2), (4, 34, 1), (4, 27, 1)]
)
def test_a_gang_over_racks_fills_hosts_and_splits_evenly(count, replicas, faults):
    with pytest.raises(InvalidSpecError) as caught:
        resolve_coscheduling(ResourceConfig.with_gpu("GB200", count), replicas)
    assert len(caught.value.faults) == faults


def test_alternatives_on_different_levels_are_refused():
    resources = ResourceConfig.with_gpu("H100", 4, device_alternatives=["GB200"])
    with pytest.raises(InvalidSpecError, match=r"H100 on leafgroup, GB200 on nvlink\.domain"):
        resolve_coscheduling(resources, 2)


@given(st.sampled_from(GPU_MODELS), st.integers(1, 16), st.integers(2, 10_000))
def test_a_named_level_wins_over_every_default(model, count, replicas):
    resources = ResourceConfig.with_gpu(model, count)
    assert resolve_coscheduling(resources, replicas, gpu_gang_level="pool").group_by == "pool"
    assert resolve_coscheduling(ResourceConfig.with_tpu("v5p-16"), 2, gpu_gang_level="pool").group_by == "tpu-name"


def test_the_devices_variables_fill_in_what_the_author_left_out():
    device = TpuConfig("v6e-4")
    assert dict(convert_environment(None, device).env_vars) == device.default_env_vars()
    mine = EnvironmentConfig(env_vars={"JAX_PLATFORMS": "tpu", "A": "1"})
    assert dict(convert_environment(mine, device).env_vars) == {**device.default_env_vars(), **mine.env_vars}


def test_the_workers_own_environment_is_not_sent(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("WANDB_API_KEY", "hunter2")
    environment = EnvironmentConfig(workspace=".", extras=("gpu",))
    request = build_launch_request(JobRequest(name="x", entrypoint=ECHO, environment=environment))
    assert b"hunter2" not in request.SerializeToString()


def test_a_command_is_sent_as_it_is():
    runtime = convert_entrypoint(Entrypoint.from_binary("bash", ["-c", "echo $A | wc"]))
    assert list(runtime.run_command.argv) == ["bash", "-c", "echo $A | wc"]
    assert not runtime.workdir_files
    assert not runtime.setup_commands


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        (EnvironmentConfig(), 0),
        (EnvironmentConfig(docker_image="busybox"), 0),
        (EnvironmentConfig(extras=("gpu",)), 0),
        (EnvironmentConfig(workspace="."), 1),
        (EnvironmentConfig(pip_packages=("x",)), 1),
        (EnvironmentConfig(workspace=".", setup_scripts=()), 0),
        (EnvironmentConfig(workspace=".", setup_scripts=("a", "\n", "b")), 2),
    ],
    ids=str,
)
def test_scripts_run_only_where_there_is_something_to_set_up(environment, count):
    scripts = setup_scripts(environment)
    assert len(scripts) == count
    assert list(convert_environment(environment, CpuConfig()).setup_scripts) == scripts
    assert list(convert_entrypoint(ECHO, environment).setup_commands) == scripts


def test_names_in_the_default_script_are_quoted():
    (script,) = setup_scripts(EnvironmentConfig(workspace=".", extras=("a;rm -rf /",), pip_packages=("x; y",)))
    assert "uv sync --no-dev --extra 'a;rm -rf /'; fi" in script
    assert "uv pip install 'x; y'" in script


def test_processes_share_the_gpus_of_a_replica():
    assert multiprocess_argv(["train"], 1, 8) == ["train"]
    argv = multiprocess_argv(["train"], 4, 8)
    assert argv == ["python", "-m", "iris.jax.multigpu_main", "--nproc", "4", "--devices-per-proc", "2", "--", "train"]


def test_single_files_are_read_relative_to_the_base(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.yaml").write_bytes(b"x: 1\n")
    bundle, files = read_code(EnvironmentConfig(files={"a/b.yaml": "conf/a.yaml"}), tmp_path)
    assert (bundle, files) == (None, {"a/b.yaml": b"x: 1\n"})
    assert read_code(None, tmp_path) == (None, {})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidSpecError, match=r"files: 'conf\.yaml' cannot be read"):
        read_code(EnvironmentConfig(files={"conf.yaml": "nowhere"}), tmp_path)


def test_a_replaced_gpu_changes_only_the_device():
    one = convert_resources(ResourceConfig.with_gpu("H100", cpu=8))
    two = convert_resources(dataclasses.replace(ResourceConfig.with_gpu("H100", cpu=8), device=GpuConfig("L4")))
    two.device.gpu.variant = "H100"
    assert one == two
