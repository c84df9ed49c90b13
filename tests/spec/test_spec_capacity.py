"""Counting what is free, from a controller's facts alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow import ResourceConfig
from fray_airflow.capacity import Need, busy_jobs, capacity_of
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import convert_resources
from fray_airflow.iris.read import need
from fray_airflow.scaling import Demand, Scaling, ScalingGroup, Slice
from fray_airflow.status import Worker

GB = 1024**3
GANG = ResourceConfig.with_tpu("v5p-16")
PAIR = ResourceConfig.with_tpu("v5p-16", slice_count=2)


def vm(slice_name, index=0, tasks=(), variant="v5p-16", kind="tpu", **fields):
    attributes = {
        "device-type": kind,
        "device-variant": variant,
        "preemptible": "true",
        "region": "r",
        "zone": "r-a",
        **({"tpu-name": slice_name} if kind == "tpu" else {}),
        **fields.pop("attributes", {}),
    }
    room = {"cpu_millicores": 208_000, "memory_bytes": 448 * GB, "accelerators": 4 if kind == "tpu" else 8}
    group = f"{kind}_{variant}" if variant else kind
    return Worker(
        f"{slice_name}-{index}", scale_group=group, attributes=attributes, task_ids=tuple(tasks), **room | fields
    )


def slices(*busy, **fields):
    """The VMs of as many v5p-16 slices as there are arguments: the tasks on each of their two VMs."""
    return [vm(f"s{number}", index, tasks, **fields) for number, tasks in enumerate(busy) for index in range(2)]


def group(availability="at_max_slices", count=0, variant="v5p-16", kind="tpu", **fields):
    found = tuple(Slice(f"s{number}", "ready", (f"s{number}-0", f"s{number}-1")) for number in range(count))
    return ScalingGroup(f"{kind}_{variant}", kind, variant, "r", availability, **{"slices": found, **fields})


def text(config, workers, *groups, waiting=(), **options):
    return capacity_of(config, Scaling(groups, tuple(waiting)), workers, **options).text


def test_a_slice_counts_when_all_its_machines_are_free():
    """One VM in use takes the slice; a task elsewhere does not."""
    workers = [*slices([], ["/u/a/0"]), vm("s2"), vm("s2", 1, ["/u/b/0"])]
    found = capacity_of(PAIR, Scaling((group(count=3),)), workers)
    assert (found.fits, found.free, found.wanted, found.headroom) == (False, 1, 2, False)
    assert found.text == "1 of 2 v5p-16 slices free; the group is at its maximum of 3 slices"
    assert found.to_json() == {"wanted": 2, "free": 1, "headroom": False, "text": found.text}


def test_more_than_enough_is_told_as_such():
    assert text(GANG, slices([], [])) == "2 v5p-16 slices free, 1 wanted"


@pytest.mark.parametrize(
    ("fields", "free"),
    [({"failures": 1}, 0), ({"healthy": False}, 0), ({"attributes": {"zone": "other"}}, 1), ({}, 1)],
)
def test_machines_that_do_not_answer_are_not_free(fields, free):
    """They stay listed until Iris gives them up."""
    assert capacity_of(GANG, Scaling(), [*slices([])[:1], vm("s0", 1, **fields)]).free == free


def test_a_machine_that_only_the_autoscaler_calls_unusable_is_not_free():
    broken = group(slices=(Slice("s0", "ready", ("s0-0", "s0-1"), unusable=("s0-1",)),))
    assert capacity_of(GANG, Scaling((broken,)), slices([])).free == 0


def test_half_a_slice_is_none():
    """The other machine has not come up yet."""
    assert capacity_of(GANG, Scaling(), slices([])[:1]).free == 0


def test_room_beside_other_jobs_counts_once_their_needs_are_known():
    """A small job on a machine of the slice leaves its chips free."""
    workers = slices(["/u/small/0"])
    assert busy_jobs(GANG, workers) == ["/u/small"]
    assert capacity_of(GANG, Scaling(), workers).free == 0
    assert capacity_of(GANG, Scaling(), workers, used={"/u/small": Need(1000, GB)}).free == 1
    assert capacity_of(GANG, Scaling(), workers, used={"/u/small": Need(1000, GB, 4)}).free == 0
    assert capacity_of(GANG, Scaling(), workers, used={"/u/small": Need(200_000, GB)}).free == 0


def test_several_small_replicas_go_onto_one_host():
    host = vm("h", kind="cpu", variant="", cpu_millicores=8000, memory_bytes=64 * GB, accelerators=0)
    config = ResourceConfig.with_cpu(cpu=2, ram="20g", replicas=4)
    assert text(config, [host]).startswith("3 of 4 places for 2 cores and 20g free")


def test_a_cpu_job_may_go_anywhere():
    assert (
        capacity_of(ResourceConfig.with_cpu(cpu=100), Scaling(), [vm("s"), vm("g", kind="gpu", variant="h100")]).free
        == 4
    )


def test_gpus_of_one_host_are_shared():
    hosts = [vm("g", kind="gpu", variant="h100", tasks=["/u/a/0"])]
    used = {"/u/a": Need(1000, GB, 5)}
    assert text(ResourceConfig.with_gpu("H100", 3), hosts, used=used) == "1 of 1 places for 3 H100 free"
    assert capacity_of(ResourceConfig.with_gpu("H100", 4), Scaling(), hosts, used=used).free == 0
    assert text(ResourceConfig.with_gpu("auto", 8), hosts[:0]).startswith("0 of 1 places for 8 GPUs of any kind free")
    assert capacity_of(ResourceConfig.with_gpu("auto"), Scaling(), [vm("s"), *hosts], used=used).free == 3


def test_a_gang_of_gpu_hosts_shares_a_level_of_the_network():
    """Two free hosts on two leaves are no gang of two."""
    hosts = [vm(f"g{n}", kind="gpu", variant="h100", attributes={"leafgroup": f"leaf{n // 2}"}) for n in range(3)]
    config = ResourceConfig.with_gpu("H100", 8, replicas=2)
    assert text(config, hosts, gang_level="leafgroup") == "2 of 2 hosts for 8 H100 under one leafgroup free"
    assert capacity_of(config, Scaling(), hosts[1:], gang_level="leafgroup").free == 1
    assert capacity_of(config, Scaling(), hosts, gang_level="spine").free == 0


def test_alternatives_count_together():
    config = ResourceConfig.with_tpu(["v5p-16", "v4-16"], slice_count=2)
    workers = [*slices([]), vm("x", 0, variant="v4-16"), vm("x", 1, variant="v4-16")]
    assert text(config, workers) == "2 of 2 v5p-16 or v4-16 slices free"


def test_a_replica_alone_takes_one_vm_of_a_slice():
    config = ResourceConfig.with_tpu("v5p-16", replicas=1)
    assert text(config, slices([])) == "2 v5p-16 VMs free, 1 wanted"


@pytest.mark.parametrize(
    ("asked", "free"),
    [
        ({"regions": ["R", "q"]}, 1),
        ({"regions": ["*"]}, 1),
        ({"regions": ["q"]}, 0),
        ({"zone": "r-a"}, 1),
        ({"zone": "r-b"}, 0),
        ({"preemptible": False}, 0),
    ],
)
def test_constraints_narrow_the_machines(asked, free):
    found = capacity_of(ResourceConfig.with_tpu("v5p-16", **asked), Scaling((group(),)), slices([]))
    assert found.free == free
    assert found.possible == bool(free)


@pytest.mark.parametrize(
    ("availability", "reason", "fits", "says"),
    [
        ("available", "", True, "the group can be scaled up"),
        ("requesting", "", True, "the group is being scaled up"),
        ("cooldown", "", False, "the group is at its maximum, with 0 still booting"),
        ("at_max_slices", "", False, "the group adds no machines by itself"),
        ("quota_exceeded", "no more", False, "the group has used up its quota (no more)"),
        ("backoff", "health=0.1", False, "the group waits after failed attempts to scale up (health=0.1)"),
        ("on_strike", "", False, "the group is on_strike"),
    ],
)
def test_headroom_is_what_the_group_says_of_itself(availability, reason, fits, says):
    """A state of a newer Iris is no headroom."""
    found = capacity_of(GANG, Scaling((group(availability, reason=reason),)), [])
    assert (found.fits, found.text) == (fits, f"0 of 1 v5p-16 slices free; {says}")


def test_what_boots_is_headroom_unless_others_wait_for_it():
    booting = group("cooldown", slices=(Slice("s9", "booting", ("s9-0", "s9-1")),))
    assert capacity_of(GANG, Scaling((booting,)), []).headroom
    assert not capacity_of(PAIR, Scaling((booting,)), []).headroom
    waiting = (Demand("tpu", "v5p-16", 2, gang=True),)
    assert not capacity_of(GANG, Scaling((booting,), waiting), []).headroom


def test_a_slice_whose_machines_have_registered_is_no_longer_on_its_way():
    """Iris calls it booting for a while yet, though a gang may run on it."""
    booting = group("cooldown", slices=(Slice("s0", "booting", ("s0-0", "s0-1")),))
    assert not capacity_of(GANG, Scaling((booting,)), slices(["/u/a/0"])).fits


def test_gangs_that_wait_already_go_first():
    waiting = [
        Demand("tpu", "v4-16,v5p-16", 2, gang=True, unmet="no_capacity: tpu=at_max_slices"),
        Demand("tpu", "v4-16", 2, gang=True),
        Demand("cpu", "", 5),
    ]
    found = text(PAIR, slices([], []), group(count=2), waiting=waiting)
    assert found.startswith("1 of 2 v5p-16 slices free; jobs that wait already want 1 more; ")


@pytest.mark.parametrize("reason", ["no_matching_group: x", "coschedule_mismatch: x", "insufficient_resources: x"])
def test_a_job_that_no_machine_suits_is_in_nobodys_way(reason):
    waiting = [Demand("tpu", "v5p-16", 4, gang=True, unmet=reason)]
    assert text(GANG, slices([]), waiting=waiting) == "1 of 1 v5p-16 slices free"


def test_a_device_of_no_group_is_impossible_and_told_with_those_there_are():
    found = capacity_of(
        ResourceConfig.with_tpu("v6e-8", zone="z", preemptible=False),
        Scaling((group(), group(kind="cpu", variant=""), group(kind="gpu", variant="h100"))),
        [],
    )
    assert (found.possible, found.fits) == (False, False)
    assert found.text.startswith(
        "no scaling group of this cluster has machines for tpu v6e-8, 90 cores and 360g per replica, zone z, "
        "not preemptible; its groups have cpu, gpu h100, tpu v5p-16."
    )


def test_a_cluster_without_groups_may_still_get_workers():
    """Standalone workers come and go by themselves."""
    found = capacity_of(GANG, Scaling(), [])
    assert (found.possible, found.fits) == (True, False)
    assert found.text == "0 of 1 v5p-16 slices free; the cluster has no scaling groups"


def test_a_replica_larger_than_any_machine_is_impossible():
    assert not capacity_of(ResourceConfig.with_cpu(cpu=500), Scaling((group(count=1),)), slices([])).possible


def test_only_the_groups_that_can_grow_are_named():
    config = ResourceConfig.with_tpu(["v5p-16", "v4-16"])
    found = text(config, [], group("quota_exceeded"), group("available", variant="v4-16"))
    assert found == "0 of 1 v5p-16 or v4-16 slices free; tpu_v4-16 can be scaled up"


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (ResourceConfig.with_tpu("v5p-16", target_cluster="far"), "target_cluster='far'"),
        (ResourceConfig.with_tpu("v5p-16", replicas=3), "replicas=3 do not fill slices of 2 VMs"),
    ],
)
def test_what_cannot_be_told_is_refused(config, fault):
    with pytest.raises(InvalidSpecError, match=fault):
        capacity_of(config, Scaling((group(),)), [])


CONFIGS = st.one_of(
    st.builds(
        lambda cpu, ram: ResourceConfig.with_cpu(cpu=cpu, ram=f"{ram}g"), st.floats(0.01, 500), st.integers(1, 900)
    ),
    st.builds(lambda count: ResourceConfig.with_gpu("H100", count), st.integers(1, 16)),
    st.builds(
        ResourceConfig.with_tpu, st.sampled_from(["v5p-8", "v5p-16", "v6e-16", "v4-32"]), slice_count=st.integers(1, 3)
    ),
)
TASKS = st.sampled_from([(), (), ("/u/a/0",), ("/u/b/0", "/u/a/1")])
WORKERS = st.lists(TASKS, max_size=6).map(lambda busy: slices(*busy))


@given(CONFIGS)
def test_a_replica_needs_what_its_request_asks_for(config):
    """The same figures as on the wire."""
    assert Need.of(config) == need(convert_resources(config))


@given(
    CONFIGS, WORKERS, st.lists(st.builds(Demand, st.just("tpu"), st.just("v5p-16"), st.integers(1, 4), st.booleans()))
)
def test_free_machines_fit_and_more_work_never_frees_any(config, workers, waiting):
    """Waiting jobs, and jobs of unknown size on the machines, can only take."""
    alone = capacity_of(config, Scaling(), workers)
    assert alone.fits == (alone.free >= alone.wanted)
    assert 0 <= capacity_of(config, Scaling((), tuple(waiting)), workers).free <= alone.free
    known = {"/u/a": Need(1000, GB), "/u/b": Need(1000, GB)}
    assert alone.free <= capacity_of(config, Scaling(), workers, used=known).free
