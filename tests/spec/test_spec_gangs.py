"""Levels of GPU gangs: their names, Iris's words for one that is missing, and the advice."""

import pytest

from fray_airflow.gangs import KNOWN_LEVELS, level_advice, level_fault, missing_level, shared_levels
from fray_airflow.status import Worker


def host(name, kind="gpu", **attributes):
    return Worker(name, attributes={"device-type": kind, "device-variant": "h100", "gpu-count": 8, **attributes})


@pytest.mark.parametrize("level", [None, *KNOWN_LEVELS, "pool", "backend.coreweave.cloud/leafgroup", "tpu-name"])
def test_a_level_may_have_any_name_that_an_attribute_can_have(level):
    assert level_fault(level) == ""


@pytest.mark.parametrize("level", ["", " leafgroup", "two words", "-x", 3, True, ["leafgroup"]])
def test_a_fault_names_the_field_the_value_and_the_choices(level):
    fault = level_fault(level)
    assert fault.startswith(f"gpu_gang_level={level!r} ")
    assert all(known in fault for known in KNOWN_LEVELS)


def test_iriss_reason_for_a_level_that_no_worker_has_is_understood():
    """Also in what its autoscaler adds, and in the sum of several slices."""
    reason = "Scheduler: Coscheduling: 2 workers match constraints but none have 'leafgroup' attribute\n\nAutoscaler: x"
    assert missing_level(reason) == missing_level(f"slice 1: {reason}") == "leafgroup"


@pytest.mark.parametrize(
    "reason",
    ["", "Pending scheduler feedback", "Coscheduling: need 4 workers in same 'tpu-name' group, largest group has 2"],
)
def test_other_reasons_are_not_taken_for_it(reason):
    assert missing_level(reason) == ""


def test_the_advice_lists_what_gpu_hosts_share_and_what_to_set():
    """Largest groups first; what tells of one machine, and what other machines have, is no level."""
    workers = [host("a", pool="p1", zone="z"), host("b", pool="p2", zone="z"), host("c", kind="cpu", rack="r")]
    assert shared_levels(workers) == {"zone": 2, "pool": 1}
    assert level_advice("leafgroup", workers) == (
        "No worker that would do has the attribute 'leafgroup', so Iris never places this gang. GPU workers share zone "
        "(up to 2 hosts), pool (up to 1 host): set gpu_gang_level, of the task or of the connection, to one of these."
    )


def test_the_advice_does_not_name_the_level_that_others_have():
    assert "leafgroup (up" not in level_advice("leafgroup", [host("a", leafgroup="l", zone="z")])


def test_without_any_level_the_cluster_is_to_blame():
    assert "have no attribute that hosts could share" in level_advice("leafgroup", [host("a"), host("c", kind="cpu")])
