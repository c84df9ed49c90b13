"""ResourceConfig and its devices: checked where they are made."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow import ANY_REGION, CpuConfig, GpuConfig, ResourceConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.resources import CONTAINER_PROFILES, MAX_REPLICAS
from fray_airflow.tpu import TPU_TOPOLOGIES
from fray_airflow.units import parse_bytes

TPU_TYPES = st.sampled_from(sorted(TPU_TOPOLOGIES))
A_NAME = [1, "", " ", b"x", ["x"]]
NOT_A_COUNT = [0, -1, 1.0, 1.5, "2", True, None, MAX_REPLICAS + 1, 10**400]
NOT_A_LIST = ["us-east1", ["us-east1", ""], ["us-east1", None], {"us-east1"}, {"us-east1": 1}, 5, b"ab", iter(["x"])]

BAD = {
    "cpu": [0, -1, 0.0009, "4", True, None, float("nan"), float("inf"), 10**400, 2147484],
    "ram": ["", "16", "0g", "-1g", "abc", "16384p", "9" * 400 + "g", None, 1.5, True, 16],
    "disk": ["", "16", "1023k", "1e3g", None],
    "device": [None, "v5p-8", CpuConfig],
    "replicas": NOT_A_COUNT,
    "preemptible": ["yes", 1, None],
    "regions": [*NOT_A_LIST, [ANY_REGION, "us-east1"]],
    "zone": A_NAME,
    "target_cluster": A_NAME,
    "image": A_NAME,
    "container_profile": ["root", "", 1, ["default"], "CONTAINER_PROFILE_DEFAULT"],
    "device_alternatives": [*NOT_A_LIST, ["H100"]],
}


def faults_of(make):
    with pytest.raises(InvalidSpecError) as caught:
        make()
    return caught.value.faults


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_a_wrong_value_is_refused_where_it_is_written_and_named(field, value):
    (fault,) = faults_of(lambda: ResourceConfig(**{field: value}))
    assert fault.startswith(field)


def test_one_message_lists_every_fault():
    bad = {field: values[0] for field, values in BAD.items()}
    faults = faults_of(lambda: ResourceConfig(**bad))
    assert sorted(fault.partition("=")[0].partition(":")[0] for fault in faults) == sorted(bad)


def test_defaults_are_those_of_fray():
    config = ResourceConfig()
    assert (config.cpu, config.ram, config.disk, config.device) == (1, "4g", "64g", CpuConfig())
    assert (config.preemptible, config.replicas) == (True, 1)
    assert {config.regions, config.zone, config.target_cluster, config.device_alternatives, config.image} == {None}
    assert config.container_profile is None


def test_sixteen_bytes_of_memory_are_taken_for_a_forgotten_unit():
    (fault,) = faults_of(lambda: ResourceConfig.with_cpu(ram="16"))
    assert 'did you mean "16g"?' in fault


def test_lists_become_tuples_and_empty_ones_none():
    config = ResourceConfig.with_gpu("H100", regions=["a", "b"], device_alternatives=["H200"])
    assert (config.regions, config.device_alternatives) == (("a", "b"), ("H200",))
    empty = ResourceConfig.with_gpu("H100", regions=[], device_alternatives=[])
    assert (empty.regions, empty.device_alternatives) == (None, None)


@pytest.mark.parametrize("profile", CONTAINER_PROFILES)
def test_every_listed_profile_is_taken(profile):
    assert ResourceConfig(container_profile=profile).container_profile == profile


CONFIGS = [
    ResourceConfig.with_cpu(cpu=0.5, ram="512m", regions=["us-east1"]),
    ResourceConfig.with_gpu("H100", 8, zone="us-east1-b", device_alternatives=["H200"]),
    ResourceConfig.with_tpu(["v4-8", "v5p-8"], slice_count=3, image="busybox"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.device.kind)
def test_a_config_is_a_frozen_value(config):
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.cpu = 2
    for again in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config), dataclasses.replace(config)):
        assert again == config
        assert hash(again) == hash(config)
    assert config != dataclasses.replace(config, zone="elsewhere")


@pytest.mark.parametrize("builder", [ResourceConfig.with_cpu, lambda **kw: ResourceConfig.with_tpu("v5p-8", **kw)])
def test_a_misspelt_field_is_answered_with_the_list(builder):
    faults = faults_of(lambda: builder(memory="4g", gpus=1))
    assert len(faults) == 2
    assert all("cpu, " in fault and "ram, " in fault for fault in faults)


@given(TPU_TYPES, st.integers(1, 4))
def test_a_tpu_config_has_a_replica_per_vm_and_half_of_each_host(name, slices):
    topology = TPU_TOPOLOGIES[name]
    config = ResourceConfig.with_tpu(name, slice_count=slices)
    assert config.replicas == slices * topology.vm_count
    assert config.chip_count() == slices * topology.chip_count
    assert config.total_flops() == config.chip_count() * config.device_flops()
    assert config.disk == "50g"
    assert config.device == TpuConfig(name)


@pytest.mark.parametrize(
    ("name", "cpu", "ram"),
    [("v4-8", 120, "200g"), ("v5litepod-4", 56, "96g"), ("v5p-8", 104, "224g"), ("v6e-4", 90, "360g")],
)
def test_known_shares_of_hosts(name, cpu, ram):
    config = ResourceConfig.with_tpu(name)
    assert (config.cpu, config.ram) == (cpu, ram)


def test_what_the_author_gives_wins_over_the_share_of_the_host():
    config = ResourceConfig.with_tpu("v5p-16", cpu=8, ram="1t", disk="1t", replicas=4)
    assert (config.cpu, config.ram, config.disk, config.replicas) == (8, "1t", "1t", 4)


def test_of_a_list_of_types_the_first_counts_and_the_others_are_alternatives():
    config = ResourceConfig.with_tpu(["V5E-4", "v6e-4", " V4-8 "])
    assert config.device.variant == "v5litepod-4"
    assert config.device_alternatives == ("v6e-4", "v4-8")
    assert config.ram == "96g"
    assert ResourceConfig.with_tpu(["v5p-8"]).device_alternatives is None


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ([], "names no TPU type"),
        (["v5p-9"], "did you mean 'v5p-8'"),
        ("v5e", "Unknown TPU type"),
        (["v5p-8", "v5p-9"], "did you mean 'v5p-8'"),
        (["v6e-4", "v6e-8"], "alternatives must have the same shape"),
        (["v5p-8", "v5p-16"], "alternatives must have the same shape"),
        ([None], "is not a TPU type"),
        (["v5p-8", None], "is not a list of device variants"),
    ],
)
def test_wrong_tpu_types_are_refused(types, said):
    (fault,) = faults_of(lambda: ResourceConfig.with_tpu(types))
    assert said in fault


@pytest.mark.parametrize("slices", [0, -1, 1.0, "2", True, None])
def test_a_wrong_number_of_slices_is_refused(slices):
    (fault,) = faults_of(lambda: ResourceConfig.with_tpu("v5p-8", slice_count=slices))
    assert fault.startswith("slice_count=")


@given(TPU_TYPES, TPU_TYPES)
def test_alternatives_are_taken_exactly_when_their_vms_are_alike(first, second):
    one, two = TPU_TOPOLOGIES[first], TPU_TOPOLOGIES[second]
    alike = (one.vm_count, one.chips_per_vm) == (two.vm_count, two.chips_per_vm)
    try:
        assert ResourceConfig.with_tpu([first, second]).device_alternatives == (second,)
    except InvalidSpecError:
        assert not alike
    else:
        assert alike


def test_a_gpu_replica_keeps_the_small_defaults_of_cpu_and_memory():
    config = ResourceConfig.with_gpu("A100-80G", count=8, replicas=4)
    assert (config.cpu, config.ram, config.chip_count()) == (1, "4g", 32)
    assert config.total_flops("bf16") == 32 * 3.12e14


def test_a_cpu_job_has_no_chips_and_a_round_figure_of_flops():
    config = ResourceConfig.with_cpu(replicas=7)
    assert (config.chip_count(), config.total_flops()) == (0, 100e9)


def test_flops_that_nobody_knows_are_an_error():
    with pytest.raises(ValueError, match="GB200"):
        ResourceConfig.with_gpu("GB200").total_flops()


@given(st.floats(0.01, 100), st.sampled_from(CONFIGS))
def test_scaling_multiplies_cpu_ram_and_disk_and_nothing_else(factor, config):
    scaled = config.scale(factor)
    assert scaled.cpu == config.cpu * factor
    for name in ("ram", "disk"):
        expected = parse_bytes(getattr(config, name)) * factor
        assert parse_bytes(getattr(scaled, name)) == pytest.approx(expected, rel=1e-9, abs=1)
    assert dataclasses.replace(scaled, cpu=config.cpu, ram=config.ram, disk=config.disk) == config


def test_scaling_by_name_leaves_the_other_texts_as_they_were():
    config = ResourceConfig.with_cpu(cpu=3, ram="1024m", disk="64GiB")
    assert config.scale(ram=2) == dataclasses.replace(config, ram="2g")
    assert config.scale() == config.scale(1) == config


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf"), "2", True, 1e308, 10**400, 1e-300])
def test_a_factor_that_makes_no_sense_is_refused(factor):
    assert faults_of(lambda: ResourceConfig().scale(factor))
    assert faults_of(lambda: ResourceConfig().scale(ram=factor))


def test_one_factor_and_named_factors_are_not_mixed():
    (fault,) = faults_of(lambda: ResourceConfig().scale(2, cpu=1))
    assert "not both" in fault


@pytest.mark.parametrize(
    ("variant", "count", "faults"),
    [("", 1, 1), (None, 1, 1), (" ", 0, 2), ("H100", 0, 1), ("H100", 1.0, 1), ("H100", True, 1), ("H100", 2**31, 1)],
)
def test_a_wrong_gpu_is_refused(variant, count, faults):
    assert len(faults_of(lambda: GpuConfig(variant, count))) == faults


@pytest.mark.parametrize("variant", [None, 8, "", "v5p", "v5p-9", "H100"])
def test_a_wrong_tpu_is_refused(variant):
    (fault,) = faults_of(lambda: TpuConfig(variant))
    assert fault.startswith(f"variant={variant!r}")


@pytest.mark.parametrize(
    ("device", "env"),
    [
        (CpuConfig(), {"JAX_PLATFORMS": "cpu"}),
        (GpuConfig("H100"), {"JAX_PLATFORMS": ""}),
        (TpuConfig("v4-8"), {"JAX_PLATFORMS": ""}),
        (TpuConfig("v5e-4"), {"JAX_PLATFORMS": "", "LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=50000"}),
        (TpuConfig("v5p-8"), {"JAX_PLATFORMS": "", "LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=50000"}),
        (TpuConfig("v6e-4"), {"JAX_PLATFORMS": "", "LIBTPU_INIT_ARGS": "--xla_tpu_scoped_vmem_limit_kib=98304"}),
    ],
    ids=str,
)
def test_each_device_has_its_environment(device, env):
    assert device.default_env_vars() == env
    assert hash(device) == hash(copy.deepcopy(device))
