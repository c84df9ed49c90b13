"""A spec is translated byte for byte as marin-fray translates it, but for KNOWN_DIFFERENCES."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import resource_configs

from fray_airflow import (
    ANY_REGION,
    CpuConfig,
    Entrypoint,
    GpuConfig,
    JobRequest,
    ResourceConfig,
    TpuConfig,
    create_environment,
)
from fray_airflow.errors import InvalidSpecError
from fray_airflow.identity import LAUNCH_ENV, LaunchIdentity
from fray_airflow.iris import convert_constraints, convert_environment, convert_resources, resolve_coscheduling
from fray_airflow.iris.convert import multiprocess_argv
from fray_airflow.iris.submission import prepare
from fray_airflow.tpu import TPU_HBM_GIB_PER_CHIP, TPU_HOST_RESOURCES, TPU_TOPOLOGIES, tpu_family, tpu_hbm_bytes
from fray_airflow.units import parse_bytes

REASON = "marin-fray and marin-iris are not installed: uv sync --group iris"
fray = pytest.importorskip("fray.types", reason=REASON)
backend = pytest.importorskip("fray.iris_backend", reason=REASON)
fray_flops = importlib.import_module("fray.device_flops")
iris_constraints = importlib.import_module("iris.cluster.constraints")
iris_types = importlib.import_module("iris.cluster.types")
iris_multigpu = importlib.import_module("iris.jax.multigpu")

pytestmark = pytest.mark.parity

KNOWN_DIFFERENCES = {
    "any-region marker": "Fray emits `region EXISTS` and its client takes it out; here it is never made.",
    "region with nothing else": "`regions=[]` is None here; in Fray it stays a list, which is as empty.",
    "TPU names": "`V5E-16` and `v5e-16` are normalized to `v5litepod-16`; Fray raises `Unknown TPU type`.",
    "TPU family name": "The family of `v5litepod-16` is `v5litepod` here, as in the type; Fray calls it `v5e`.",
    "TPU topology": "`TpuConfig.topology` goes on the wire; Fray records it and sends none.",
    "refused specs": "What cannot run is refused where it is written (no memory, `ram='16'`, no replicas, more than"
    " the wire's integers hold); Fray sends it.",
    "size words": "`16 gigabytes` is refused, `16g`, `16GB` and `16GiB` are read; Fray reads words too.",
    "scaled sizes": "`scale` keeps 12 digits of a size, Fray 6; the same where 6 are enough.",
    "CPU flops of a device": "`CpuConfig.device_flops` is the 100e9 that `total_flops` has; Fray raises.",
    "GPU arguments": "`GpuConfig(variant, count)`; Fray has `kind` between them.",
    "container profile": "`'privileged'`; Fray takes the enum's name `'CONTAINER_PROFILE_PRIVILEGED'`.",
    "default variables": "HF_DATASETS_TRUST_REMOTE_CODE and TOKENIZERS_PARALLELISM come with `create_environment`,"
    " not with every job, and MARIN_PROVENANCE and NCCL_* are not sent.",
    "secrets": "Nothing of the submitter's own environment is sent; Fray forwards HF, W&B and CoreWeave keys.",
    "set-up": "Without a workspace or packages no script is sent; Fray always sends `uv sync`. Iris's own runtime"
    " script is not added: the runner brings its cloudpickle.",
    "docker_image": "It becomes the task's image; Fray's client ignores it.",
    "GPU gangs": "`gpu_gang_level` overrides the level, which is a property of the cluster; Fray has no such argument.",
    "taken names": "A name that is taken is an error and adopted only on proof; Fray adopts by default.",
}


def theirs(config: ResourceConfig) -> Any:
    """The same spec as Fray's class."""
    device = config.device
    if isinstance(device, TpuConfig):
        other = fray.TpuConfig(device.variant)
    else:
        other = (
            fray.GpuConfig(device.variant, count=device.count) if isinstance(device, GpuConfig) else fray.CpuConfig()
        )
    values = {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
    for name in ("regions", "device_alternatives"):
        values[name] = None if values[name] is None else list(values[name])
    return fray.ResourceConfig(**{**values, "device": other})


def wire(message: Any) -> bytes:
    return b"" if message is None else message.SerializeToString(deterministic=True)


@settings(max_examples=500)
@given(resource_configs(), st.one_of(st.integers(0, 64), st.integers(1, 10_000)))
def test_a_spec_is_byte_for_byte_what_fray_sends(config, replicas):
    other = theirs(config)
    assert wire(convert_resources(config)) == wire(backend.convert_resources(other).to_proto())
    sent = [each for each in backend.convert_constraints(other) if not iris_constraints.is_any_region_marker(each)]
    assert [wire(each) for each in convert_constraints(config)] == [wire(each.to_proto()) for each in sent]
    check_coscheduling(config, other, replicas)
    check_device(config, other)


def check_coscheduling(config: ResourceConfig, other: Any, replicas: int) -> None:
    """Equal, or an error in both."""
    try:
        expected = backend.resolve_coscheduling(other, replicas)
    except ValueError:
        with pytest.raises(InvalidSpecError):
            resolve_coscheduling(config, replicas)
    else:
        assert wire(resolve_coscheduling(config, replicas)) == wire(expected and expected.to_proto())


def check_device(config: ResourceConfig, other: Any) -> None:
    """Environment, chips and FLOP/s."""
    assert config.device.default_env_vars() == other.device.default_env_vars()
    expected = backend.convert_environment(None, other.device).env_vars
    assert dict(convert_environment(None, config.device).env_vars) == expected
    assert config.chip_count() == other.chip_count()
    if fray_flops.device_flops(config.device.variant) or isinstance(config.device, CpuConfig):
        assert config.total_flops() == other.total_flops()


@pytest.mark.parametrize("name", sorted(TPU_TOPOLOGIES))
def test_with_tpu_makes_what_frays_makes(name):
    for slices in (1, 2, 5):
        if slices * TPU_TOPOLOGIES[name].vm_count > 10_000:
            continue
        ours = ResourceConfig.with_tpu(name, slice_count=slices)
        assert theirs(ours) == fray.ResourceConfig.with_tpu(name, slice_count=slices)
    assert tpu_hbm_bytes(name) == fray.tpu_hbm_capacity_bytes(name)


def test_with_tpu_of_a_list_makes_what_frays_makes():
    types = ["v5litepod-4", "v6e-4", "v4-8"]
    assert theirs(ResourceConfig.with_tpu(types)) == fray.ResourceConfig.with_tpu(types)
    with pytest.raises(ValueError, match="must share both"):
        fray.ResourceConfig.with_tpu(["v6e-4", "v6e-8"])


@given(st.sampled_from(["A100-80G", "H100", "auto"]), st.integers(1, 8), st.sampled_from([{}, {"cpu": 8, "zone": "z"}]))
def test_with_gpu_and_with_cpu_make_what_frays_make(model, count, overrides):
    assert theirs(ResourceConfig.with_gpu(model, count, **overrides)) == fray.ResourceConfig.with_gpu(
        model, count, **overrides
    )
    assert theirs(ResourceConfig.with_cpu(**overrides)) == fray.ResourceConfig.with_cpu(**overrides)
    assert ANY_REGION == fray.ANY_REGION


def test_the_tables_are_those_of_fray_and_iris():
    iris_topologies = importlib.import_module("iris.cluster.tpu_topology").TPU_TOPOLOGIES
    for table in (fray.TPU_TOPOLOGIES, iris_topologies):
        assert {tuple(row) for row in TPU_TOPOLOGIES.values()} == {dataclasses.astuple(row)[:5] for row in table}
    renamed = {name.replace("v5litepod", "v5e"): host for name, host in TPU_HOST_RESOURCES.items()}
    assert {name: tuple(host) for name, host in renamed.items()} == {
        name: dataclasses.astuple(host) for name, host in fray.TPU_HOST_RESOURCES.items()
    }
    hbm = {name.replace("v5litepod", "v5e"): gib * 1024**3 for name, gib in TPU_HBM_GIB_PER_CHIP.items()}
    assert hbm == dict(fray.TPU_HBM_BYTES_PER_CHIP)
    assert {tpu_family(name).replace("v5litepod", "v5e") for name in TPU_TOPOLOGIES} == set(fray.TPU_HOST_RESOURCES)


def test_flops_are_those_of_fray():
    from fray_airflow.flops import PEAK_FLOPS, device_flops

    variants = [*PEAK_FLOPS, *TPU_TOPOLOGIES, "H100", "V100-SXM", "GB200", "v5e-8", "nothing"]
    dtypes = ["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4", "amp_bf16", "BF16", "x"]
    for variant in variants:
        for dtype in dtypes:
            assert device_flops(variant, dtype) == fray_flops.device_flops(variant, dtype), (variant, dtype)


@given(
    st.one_of(
        st.builds(
            "{}{}".format,
            st.integers(0, 2**40),
            st.sampled_from(["", "b", "k", "kb", "KiB", "m", "g", "GB", "t", " g"]),
        ),
        st.builds("{:.3f}{}".format, st.floats(0, 10_000), st.sampled_from(["k", "m", "g", "GiB", "t"])),
    )
)
def test_a_size_is_the_number_of_bytes_that_iris_reads(text):
    assert parse_bytes(text) == iris_types.parse_memory_string(text)


@given(st.sampled_from(["16g", "64GiB", "1t", "256m"]), st.sampled_from([0.25, 0.5, 1, 1.5, 2, 3, 4, 1024]))
def test_a_scaled_config_is_frays(size, factor):
    ours = ResourceConfig(cpu=3, ram=size, disk=size).scale(factor)
    assert theirs(ours) == fray.ResourceConfig(cpu=3, ram=size, disk=size).scale(factor)


@pytest.mark.parametrize(("processes", "count"), [(2, 8), (8, 8), (4, 4)])
def test_processes_are_started_as_fray_starts_them(processes, count):
    resources = backend.convert_resources(fray.ResourceConfig.with_gpu("H100", count=count))
    hook = iris_multigpu.build_multigpu_hook(resources, processes)
    assert multiprocess_argv(["train", "-x"], processes, count) == hook.wrap(["train", "-x"])


def test_a_job_request_has_frays_defaults():
    other = {each.name: each.default for each in dataclasses.fields(fray.JobRequest)}
    ours = {each.name: each.default for each in dataclasses.fields(JobRequest)}
    for name in (
        "max_retries_failure",
        "max_retries_preemption",
        "max_task_failures",
        "processes_per_task",
        "replicas",
    ):
        assert ours[name] == other[name], name
    added = create_environment(".").env_vars
    assert added.items() <= fray.create_environment(workspace=".").env_vars.items()


@given(st.integers(1, 100), st.text(max_size=5))
def test_iris_echoes_what_proves_that_a_job_is_ours(try_number, run_id):
    redacted = importlib.import_module("iris.cluster.redaction").redact_request_env_vars
    identity = LaunchIdentity("prod", "me", "dag", run_id, "task", -1, try_number, "2026-01-01")
    for token in (None, identity.token()):
        request = prepare(JobRequest(name="x", entrypoint=Entrypoint.from_binary("true")), user="me", token=token)
        message = importlib.import_module("iris.rpc.controller_pb2").Controller.LaunchJobRequest
        echo = redacted(message.FromString(request.SerializeToString()))
        assert echo.environment.env_vars[LAUNCH_ENV] == request.environment.env_vars[LAUNCH_ENV]


def differs(name: str) -> str:
    """Names a row of the table, so that the table cannot outlive its tests."""
    return KNOWN_DIFFERENCES[name]


def test_known_differences_are_there():
    marker = backend.convert_constraints(fray.ResourceConfig(regions=[ANY_REGION]))
    assert [iris_constraints.is_any_region_marker(each) for each in marker] == [True], differs("any-region marker")
    with pytest.raises(ValueError, match="Unknown TPU type"):
        fray.ResourceConfig.with_tpu("v5e-16")
    assert ResourceConfig.with_tpu("v5e-16").device.variant == "v5litepod-16", differs("TPU names")
    assert fray.tpu_family("v5litepod-16") != tpu_family("v5litepod-16"), differs("TPU family name")
    other = backend.convert_resources(fray.ResourceConfig(device=fray.TpuConfig("v5p-16", topology="2x2x2"))).to_proto()
    ours = convert_resources(ResourceConfig(device=TpuConfig("v5p-16", topology="2x2x2")))
    assert (other.device.tpu.topology, ours.device.tpu.topology) == ("", "2x2x2"), differs("TPU topology")
    assert fray.ResourceConfig(ram="16", replicas=0), differs("refused specs")
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes("16 gigabytes")
    assert iris_types.parse_memory_string("16 gigabytes") == 16 * 2**30, differs("size words")
    scaled = (
        ResourceConfig(ram="7g").scale(ram=0.123456789).ram,
        fray.ResourceConfig(ram="7g").scale(ram=0.123456789).ram,
    )
    assert scaled == ("884.938263552m", "884.938m"), differs("scaled sizes")
    with pytest.raises(NotImplementedError):
        fray.CpuConfig().device_flops()
    assert CpuConfig().device_flops() == 100e9, differs("CPU flops of a device")
    assert fray.GpuConfig("H100", 8).count == 1, differs("GPU arguments")
