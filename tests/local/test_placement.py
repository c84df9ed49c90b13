"""Where tasks go, and why they wait."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fray_airflow.iris._gen import controller_pb2, job_pb2
from fray_airflow.local import Fleet, Outcome

C = controller_pb2.Controller


@pytest.fixture
def slices(make_iris):
    """Three v5p-16 slices of two VMs, and nothing else."""
    iris = make_iris(Fleet.of(tpu={"v5p-16": 3}))
    iris.script("*", *[Outcome.hang()] * 50)
    return iris


def gang(job, name="/a/j", **fields):
    fields = {"tpu": "v5p-16", "replicas": 2, "gang": "tpu-name"} | fields
    return job(name, **fields)


def reason(iris, job_id="/a/j"):
    return iris.status(job_id).pending_reason


def test_a_gang_shares_one_slice_in_the_order_of_its_workers(slices, job):
    """Task 0 is on worker 0 of the slice."""
    slices.launch(gang(job))
    slices.until_running("/a/j")
    assert len(set(slices.slices_of("/a/j"))) == 1
    workers = slices.workers()
    ranks = [workers[task.worker_id].metadata.attributes["tpu-worker-id"].int_value for task in slices.tasks("/a/j")]
    assert ranks == [0, 1]


def test_two_gangs_get_two_slices(slices, job):
    for name in ("/a/x", "/a/y"):
        slices.launch(gang(job, name))
    slices.until_running("/a/y")
    assert not set(slices.slices_of("/a/x")) & set(slices.slices_of("/a/y"))


def test_a_gang_larger_than_a_slice_waits_for_ever(slices, job):
    """Four replicas on slices of two are accepted, being a multiple, and never placed."""
    slices.launch(gang(job, replicas=4))
    slices.run(5)
    assert slices.task_states("/a/j") == ["PENDING"] * 4
    assert "Coscheduling: need 4 workers in same 'tpu-name' group, largest group has 2" in reason(slices)
    assert (
        "coschedule_mismatch: job needs 4 tasks coscheduled but no matching group has num_vms=4 (tpu_v5p_16=2)"
        in reason(slices)
    )


def test_tasks_without_a_gang_spread_over_slices(slices, job):
    slices.launch(gang(job, replicas=4, gang=""))
    slices.until_running("/a/j")
    assert len({task.worker_id for task in slices.tasks("/a/j")}) == 4


def test_a_gang_on_a_wider_level_is_laid_out_by_worker_id_across_slices(slices, job):
    """Ranks go over the slices in turn, so index // tasks per slice does not tell the slice."""
    first, second, _ = sorted({w.metadata.attributes["tpu-name"].string_value for w in slices.workers().values()})
    request = gang(job, replicas=4, gang="device-variant")
    pin = request.constraints.add(key="tpu-name", op=job_pb2.CONSTRAINT_OP_IN)
    for name in (first, second):
        pin.values.add(string_value=name)
    slices.launch(request)
    slices.until_running("/a/j")
    names = slices.slices_of("/a/j")
    assert names[0] == names[2] != names[1] == names[3]


def test_a_gang_waits_whole_while_one_place_is_missing(slices, job):
    slices.launch(gang(job, "/a/solo", replicas=1, gang=""))
    slices.launch(gang(job, "/a/x"))
    slices.launch(gang(job, "/a/y"))
    slices.launch(gang(job, "/a/z"))
    slices.run(3)
    assert slices.task_states("/a/z") == ["PENDING", "PENDING"]
    text = reason(slices, "/a/z")
    assert text.startswith("Scheduler: Coscheduling: need 2 workers in 'tpu-name' group 'iris-tpu-v5p-16-")
    assert "\nInsufficient TPUs (need 4, available 0) - " in text
    assert text.endswith(
        " worker(s)\n\nAutoscaler: Unsatisfied autoscaler demand: no_capacity: tpu_v5p_16=at_max_slices"
    )


def test_the_autoscaler_is_not_heard_of_at_first(slices, job):
    """First a placeholder, then the scheduler's line alone, then both parts."""
    slices.launch(gang(job, replicas=4))
    assert reason(slices) == "Pending scheduler feedback"
    slices.run(0.2)
    assert reason(slices).startswith("Coscheduling: ")
    slices.run(2)
    assert reason(slices).startswith("Scheduler: Coscheduling: ")


def test_a_level_nobody_has_is_named(make_iris, job):
    iris = make_iris(Fleet.of(gpu={"H100": 2}))
    iris.launch(job(gpu="H100", gpus=8, replicas=2, gang="leafgroup"))
    iris.run(2)
    assert "Coscheduling: 2 workers match constraints but none have 'leafgroup' attribute" in reason(iris)


def test_a_killed_gang_holds_its_slice_until_it_has_drained(make_iris, job):
    """The job is KILLED at once and the autoscaler calls the slice available; the next gang still waits."""
    iris = make_iris(Fleet.of(tpu={"v5p-16": 1}))
    iris.script("*", Outcome.hang(), Outcome.hang())
    iris.launch(gang(job, "/a/x"))
    iris.until_running("/a/x")
    iris.launch(gang(job, "/a/y"))
    iris.terminate("/a/x")
    iris.run(0.3)
    assert iris.task_states("/a/y") == ["PENDING", "PENDING"]
    assert iris.until_running("/a/y") >= 0.2


def test_a_gpu_host_is_shared_by_count(make_iris, job):
    """Eight GPUs serve two tasks of four; the third waits. A count of 0 takes one."""
    iris = make_iris(Fleet.of(gpu={"H100": 1}))
    iris.script("*", *[Outcome.hang()] * 4)
    iris.launch(job("/a/x", gpu="H100", gpus=4, replicas=3))
    iris.run(2)
    assert iris.status("/a/x").task_state_counts == {"running": 2, "pending": 1}
    iris.launch(job("/a/z", gpu="H100", gpus=4))
    iris.run(2)
    assert "No worker matches constraints and has sufficient resources (need cpu=0 cores" in reason(iris, "/a/z")
    iris.terminate("/a/z")
    iris.terminate("/a/x")
    iris.launch(job("/a/y", gpu="H100", gpus=0, replicas=9))
    iris.run(3)
    assert iris.status("/a/y").task_state_counts == {"running": 8, "pending": 1}


def test_cpu_jobs_may_land_on_accelerators(make_iris, job):
    iris = make_iris(Fleet.of(tpu={"v5p-8": 1}))
    iris.launch(job())
    assert iris.until_ended("/a/j") == "SUCCEEDED"


def test_a_constraint_of_ones_own_replaces_the_implied_one(make_iris, job):
    """device-variant IN [...] takes the place of the EQ that follows from the device."""
    iris = make_iris(Fleet.of(tpu={"v5p-8": 1, "v4-8": 1}))
    iris.script("*", *[Outcome.hang()] * 2)
    for name in ("/a/x", "/a/y"):
        request = job(name, tpu="v5p-8")
        alternatives = request.constraints.add(key="device-variant", op=job_pb2.CONSTRAINT_OP_IN)
        for variant in ("v5p-8", "v4-8"):
            alternatives.values.add(string_value=variant)
        iris.launch(request)
        iris.until_running(name)
    workers = iris.workers()
    groups = {workers[iris.tasks(name)[0].worker_id].scale_group for name in ("/a/x", "/a/y")}
    assert groups == {"tpu_v5p_8", "tpu_v4_8"}


@pytest.mark.parametrize(
    ("op", "value", "fits"),
    [
        ("EQ", 1, True),
        ("NE", 0, True),
        ("GT", 0, True),
        ("GE", 1, True),
        ("LT", 2, True),
        ("LE", 0, True),
        ("GT", 1, False),
        ("EQ", 7, False),
        ("EXISTS", None, True),
        ("NOT_EXISTS", None, False),
    ],
)
def test_operators_on_numbers(make_iris, job, op, value, fits):
    iris = make_iris(Fleet.of(tpu={"v5p-16": 1}))
    request = job()
    rule = request.constraints.add(key="tpu-worker-id", op=f"CONSTRAINT_OP_{op}")
    if value is not None:
        rule.value.int_value = value
    iris.launch(request)
    iris.run(3)
    assert (iris.state("/a/j") == "SUCCEEDED") == fits


def test_an_unknown_key_waits_for_ever_and_its_absence_matches(iris, job):
    iris.launch(job("/a/x", require={"color": "red"}))
    absent = job("/a/y")
    absent.constraints.add(key="color", op=job_pb2.CONSTRAINT_OP_NOT_EXISTS)
    iris.launch(absent)
    iris.run(3)
    assert (iris.state("/a/x"), iris.state("/a/y")) == ("PENDING", "SUCCEEDED")
    assert "No workers match constraints: ['color']" in reason(iris, "/a/x")


def test_preferred_constraints_do_not_keep_anybody_waiting(iris, job):
    request = job(require={"color": "red"})
    request.constraints[0].mode = job_pb2.CONSTRAINT_MODE_PREFERRED
    iris.launch(request)
    assert iris.until_ended("/a/j") == "SUCCEEDED"


def test_ordering_a_text_stalls_the_scheduler_for_everybody(iris, job):
    """One job with GT on a text is accepted, and nobody is placed until it is gone."""
    poison = job("/mallory/j")
    poison.constraints.add(key="device-type", op=job_pb2.CONSTRAINT_OP_GT).value.string_value = "cpu"
    iris.launch(poison)
    iris.launch(job("/a/innocent"))
    iris.run(5)
    assert iris.state("/a/innocent") == "PENDING"
    assert isinstance(iris.cluster.engine.scheduler_error, TypeError)
    assert iris.call("GetAutoscalerStatus", C.GetAutoscalerStatusRequest()).status.groups
    iris.terminate("/mallory/j")
    assert iris.until_ended("/a/innocent") == "SUCCEEDED"


def test_an_empty_fleet_says_so(make_iris, job):
    iris = make_iris(Fleet.of(cpu=1))
    iris.cluster.lose_worker(next(iter(iris.workers())))
    iris.launch(job())
    iris.run(0.3)
    assert reason(iris) == "No healthy workers available"


def test_users_take_turns(make_iris, job):
    """Two users with two gangs each on two slices get one slice each, whoever submitted first."""
    iris = make_iris(Fleet.of(tpu={"v5p-16": 2}))
    iris.script("*", *[Outcome.hang()] * 4)
    for name in ("/a/0", "/a/1", "/b/0", "/b/1"):
        iris.launch(gang(job, name))
    iris.run(3)
    assert [iris.state(name) for name in ("/a/0", "/a/1", "/b/0", "/b/1")] == [
        "RUNNING",
        "PENDING",
        "RUNNING",
        "PENDING",
    ]


def test_a_higher_band_goes_first_and_evicts_batch(make_iris, job):
    """The victim keeps its job RUNNING and comes back when the other is done."""
    iris = make_iris(Fleet.of(tpu={"v5p-16": 1}))
    iris.script("batch", Outcome.hang(), Outcome.succeed())
    iris.script("int", Outcome.succeed(seconds=2))
    iris.launch(gang(job, "/v/batch", band="BATCH", max_retries_preemption=5))
    iris.until_running("/v/batch")
    iris.launch(gang(job, "/p/int"))
    iris.until_running("/p/int")
    assert iris.state("/v/batch") == "RUNNING"
    assert iris.status("/v/batch").preemption_count == 1
    assert iris.tasks("/v/batch")[0].attempts[0].error == "Preempted by /p/int/0"
    assert iris.until_ended("/v/batch") == "SUCCEEDED"
    assert iris.status("/v/batch").preemption_count == 1


def test_a_band_does_not_evict_its_own(slices, job):
    for number in range(4):
        slices.launch(gang(job, f"/u{number}/j"))
    slices.run(5)
    states = [slices.state(f"/u{number}/j") for number in range(4)]
    assert sorted(states) == ["PENDING", "RUNNING", "RUNNING", "RUNNING"]
    assert all(slices.status(f"/u{number}/j").preemption_count == 0 for number in range(4))


@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from(["", "v5p-8", "v5p-16"]),
            st.integers(1, 4),
            st.booleans(),
            st.sampled_from(["INTERACTIVE", "BATCH"]),
            st.integers(0, 120),
        ),
        max_size=12,
    )
)
# The fixtures are functions without state, so sharing them between examples is fine.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_vm_ever_holds_more_than_it_has(make_iris, job, requests):
    """And a gang is always either wholly placed, on one slice, or not at all."""
    iris = make_iris(Fleet.of(cpu=1, tpu={"v5p-8": 1, "v5p-16": 2}))
    iris.script("*", *[Outcome.succeed(seconds=0.4)] * 100)
    for number, (tpu, replicas, coscheduled, band, cores) in enumerate(requests):
        gang_level = "tpu-name" if coscheduled and tpu == "v5p-16" else ""
        fields = {"max_retries_preemption": 3, "replicas": 2 if gang_level else replicas}
        iris.launch(job(f"/u{number % 3}/j{number}", tpu=tpu, gang=gang_level, band=band, cores=cores, **fields))
    for _ in range(40):
        iris.run()
        for worker in iris.cluster.engine.workers:
            assert not any(quantity < 0 for quantity in worker.free())
        for placed in iris.cluster.engine.table:
            on = {task.attempts[-1].worker_id.rsplit("-", 2)[0] for task in placed.tasks if task.is_active}
            assert not placed.gang_level or len(on) <= 1
