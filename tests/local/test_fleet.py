"""Fleets: what they hold, and how a wrong one is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.errors import InvalidSpecError
from fray_airflow.local import Fleet
from fray_airflow.local.workers import Workers
from fray_airflow.tpu import TPU_TOPOLOGIES

SMALL = [name for name, topology in TPU_TOPOLOGIES.items() if topology.vm_count <= 16]


@given(
    cpu=st.integers(0, 3),
    tpu=st.dictionaries(st.sampled_from(SMALL), st.integers(1, 3), max_size=3),
    gpu=st.dictionaries(st.sampled_from(["H100", "A100-80G"]), st.integers(1, 3)),
)
def test_a_fleet_has_the_vms_of_its_slices(cpu, tpu, gpu):
    """One worker per VM, ids all different, one tpu-name per slice."""
    workers = list(Workers(Fleet.of(cpu=cpu, tpu=tpu, gpu=gpu), 0))
    vms = sum(TPU_TOPOLOGIES[name].vm_count * count for name, count in tpu.items())
    assert len({worker.worker_id for worker in workers}) == cpu + vms + sum(gpu.values())
    names = {worker.attributes.get("tpu-name") for worker in workers} - {None}
    assert len(names) == sum(tpu.values())


def test_every_fault_is_listed():
    with pytest.raises(InvalidSpecError) as caught:
        Fleet.from_mapping({"cpu": -1, "tpu": {"v5p-15": 1, "v5p-8": 0}, "gpu": ["H100"], "disks": 3, "region": 7})
    assert len(caught.value.faults) == 6
    assert "'disks' is unknown; choose from cpu, tpu, gpu" in str(caught.value)


@pytest.mark.parametrize(
    "mapping",
    [
        [],
        "x",
        {"cpu": True},
        {"cpu_memory": "much"},
        {"preemptible": "yes"},
        {"tpu": {3: 1}},
        {"tpu": {"v5p-8": 1, "V5P-8": 1}},
    ],
)
def test_a_wrong_mapping_is_a_value_error(mapping):
    with pytest.raises(ValueError, match="Fleet"):
        Fleet.from_mapping(mapping)


def test_a_mapping_is_read_like_the_arguments():
    spec = {"cpu": 1, "tpu": {"v5p-16": 2}, "gpu": {"H100": 1}, "gpus_per_host": 4, "preemptible": False}
    assert Fleet.from_mapping(spec) == Fleet.of(**spec)


def test_fleets_add_up_over_regions(make_iris, job):
    """A region constraint then chooses between two groups of one type."""
    fleet = Fleet.of(tpu={"v5p-8": 1}, region="us-east5") + Fleet.of(tpu={"v5p-8": 1}, region="us-central2")
    assert [group.name for group in fleet.groups] == ["tpu_v5p_8", "tpu_v5p_8_us-central2"]
    iris = make_iris(fleet)
    iris.launch(job(tpu="v5p-8", require={"region": "us-central2"}))
    iris.until_ended("/a/j")
    worker_id = iris.tasks("/a/j")[0].worker_id
    assert iris.workers()[worker_id].metadata.attributes["region"].string_value == "us-central2"
