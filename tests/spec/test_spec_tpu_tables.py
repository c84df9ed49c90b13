"""The tables of TPU slices and of FLOP/s."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.flops import PEAK_FLOPS, device_flops
from fray_airflow.tpu import (
    DEFAULT_TPU_HOST_FRACTION,
    TPU_HBM_GIB_PER_CHIP,
    TPU_HOST_RESOURCES,
    TPU_TOPOLOGIES,
    get_tpu_topology,
    normalize_tpu_type,
    tpu_family,
    tpu_hbm_bytes,
)

TYPES = st.sampled_from(sorted(TPU_TOPOLOGIES))
every_type = pytest.mark.parametrize("topology", TPU_TOPOLOGIES.values(), ids=str)


@every_type
def test_a_slice_has_its_vms_times_the_chips_of_a_vm(topology):
    assert topology.chip_count == topology.vm_count * topology.chips_per_vm


@every_type
def test_the_size_in_a_name_counts_cores_in_v4_and_v5p_and_chips_in_the_others(topology):
    cores_per_chip = 2 if tpu_family(topology.name) in ("v4", "v5p") else 1
    assert topology.name == f"{tpu_family(topology.name)}-{topology.chip_count * cores_per_chip}"


@every_type
def test_only_a_slice_of_one_vm_has_another_number_of_chips_per_vm_than_four(topology):
    assert topology.chips_per_vm == 4 or topology.vm_count == 1
    assert topology.vm_count // topology.host_count in (1, 2)


def test_the_table_has_39_rows_of_four_families():
    families = [tpu_family(name) for name in TPU_TOPOLOGIES]
    assert {name: len(list(rows)) for name, rows in itertools.groupby(families)} == {
        "v4": 10,
        "v5litepod": 9,
        "v5p": 12,
        "v6e": 8,
    }
    sums = [sum(column) for column in zip(*(row[1:] for row in TPU_TOPOLOGIES.values()), strict=True)]
    assert sums == [19444, 4799, 4861, 156]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("v4-8", (4, 1, 1, 4)),
        ("v5litepod-2", (2, 1, 1, 2)),
        ("v5litepod-16", (16, 2, 4, 4)),
        ("v5p-8", (4, 1, 1, 4)),
        ("v5p-12288", (6144, 1536, 1536, 4)),
        ("v6e-8", (8, 1, 1, 8)),
        ("v6e-256", (256, 64, 64, 4)),
    ],
)
def test_known_rows(name, row):
    assert get_tpu_topology(name) == (name, *row)


def test_every_family_has_a_host_and_a_memory_size():
    families = {tpu_family(name) for name in TPU_TOPOLOGIES}
    assert families == set(TPU_HOST_RESOURCES) == set(TPU_HBM_GIB_PER_CHIP)
    assert TPU_HOST_RESOURCES["v5p"] == (208, 448)
    assert DEFAULT_TPU_HOST_FRACTION == 0.5
    assert tpu_hbm_bytes("v5p-16") == 8 * 95 * 2**30


def test_no_table_can_be_changed():
    for table in (TPU_TOPOLOGIES, TPU_HOST_RESOURCES, TPU_HBM_GIB_PER_CHIP, PEAK_FLOPS):
        with pytest.raises(TypeError):
            table["x"] = 1


@given(TYPES, st.booleans(), st.sampled_from(["", " ", "\n"]))
def test_a_type_is_found_in_any_case_and_with_white_space_around_it(name, upper, space):
    assert get_tpu_topology(space + (name.upper() if upper else name) + space).name == name
    assert normalize_tpu_type(normalize_tpu_type(name)) == normalize_tpu_type(name)


@pytest.mark.parametrize("spelling", ["v5e-16", "V5E-16", "v5litepod-16", "V5LitePod-16"])
def test_the_product_name_v5e_means_v5litepod(spelling):
    assert get_tpu_topology(spelling).name == "v5litepod-16"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("v5p-17", "did you mean 'v5p-16'"),
        ("v5e-15", "did you mean 'v5litepod-16'"),
        ("v6-8", "did you mean 'v6e-8'"),
        ("v5p", "v5p comes in sizes 8, 16"),
        ("v5p-x", "v5p comes in sizes 8, 16"),
        ("h100", "families are v4, v5litepod, v5p, v6e"),
        ("", "families are"),
    ],
)
def test_an_unknown_type_is_answered_with_the_nearest(name, suggestion):
    with pytest.raises(ValueError, match="Unknown TPU type") as caught:
        get_tpu_topology(name)
    assert suggestion in str(caught.value)


@given(st.text())
def test_no_text_raises_anything_but_value_error(text):
    try:
        assert get_tpu_topology(text) in TPU_TOPOLOGIES.values()
    except ValueError:
        assert normalize_tpu_type(text) not in TPU_TOPOLOGIES


@given(TYPES)
def test_every_tpu_type_has_bf16_flops_of_its_family(name):
    assert device_flops(name) == PEAK_FLOPS[tpu_family(name)]["bf16"]


@pytest.mark.parametrize(
    ("device", "dtype", "flops"),
    [
        ("H100", "bf16", 9.895e14),
        ("h100", "amp_bf16", 9.895e14),
        ("H100", "FP8", 1.979e15),
        ("A100-80G", "fp32", 1.95e13),
        ("V100-SXM", "fp16", 1.12e14),
        ("v5p-16", "bf16", 4.59e14),
        ("v6e-8", "int8", 1.836e15),
        ("v5e-8", "bf16", None),
        ("GB200", "bf16", None),
        ("H100", "fp3", None),
    ],
)
def test_known_flops(device, dtype, flops):
    assert device_flops(device, dtype) == flops


def test_narrower_numbers_are_never_slower():
    for device, row in PEAK_FLOPS.items():
        for wide, narrow in (("fp32", "bf16"), ("bf16", "fp8"), ("fp8", "fp4"), ("int8", "int4")):
            if wide in row and narrow in row:
                assert row[wide] <= row[narrow], device
    assert len(PEAK_FLOPS) == 31
