"""Gangs, slices and workers."""

from __future__ import annotations

from casebook import case
from iris_under_test import CPU_HOST, SLEEP, Iris, tpu

from fray_airflow.iris import calls
from fray_airflow.iris._gen import job_pb2

GANG = {"group_by": "tpu-name"}


def _placed(iris: Iris, job_id: str) -> list[dict[str, str | int | float]]:
    """The attributes of each task's worker, in task order."""
    attributes = iris.attributes()
    return [attributes[task.worker_id] for task in iris.tasks(job_id)]


@case
def gang_on_one_slice(iris: Iris) -> None:
    """A gang is put on one slice, its tasks in the order of the slice's workers."""
    job_id = iris.launch(resources=tpu("v5p-16"), coscheduling=GANG, replicas=2)
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED
    workers = _placed(iris, job_id)
    assert [worker["tpu-worker-id"] for worker in workers] == [0, 1]
    assert len({worker["tpu-name"] for worker in workers}) == 1


@case
def gang_larger_than_a_slice(iris: Iris) -> None:
    """A gang of two slices is accepted and never placed, for a gang shares one slice."""
    job_id = iris.launch(resources=tpu("v5p-16"), coscheduling=GANG, replicas=4)
    job = iris.pending(job_id, "4")
    assert job.state == job_pb2.JOB_STATE_PENDING
    assert "need 4 workers in same 'tpu-name' group, largest group has 2" in job.pending_reason
    iris.terminate(job_id)


@case
def gang_on_unknown_level(iris: Iris) -> None:
    """A level that no worker has is accepted and never reached."""
    job_id = iris.launch(coscheduling={"group_by": "nope"}, constraints=[CPU_HOST], replicas=2)
    assert "none have 'nope' attribute" in iris.pending(job_id, "nope").pending_reason
    iris.terminate(job_id)


@case
def gang_on_a_level_that_hosts_share(iris: Iris) -> None:
    """Any attribute of workers will do as a level: a gang goes onto as many hosts of one value."""
    half = {"cpu_millicores": 40_000, "memory_bytes": 16 * 1024**2}
    # Iris boots no hosts for a gang of several groups: these two do not fit on one.
    for number in range(2):
        host = iris.launch(f"host-{number}", SLEEP, resources=half, constraints=[CPU_HOST])
        iris.running(host)
    job_id = iris.launch("gang", SLEEP, coscheduling={"group_by": "region"}, constraints=[CPU_HOST], replicas=2)
    iris.running(job_id)
    assert len({task.worker_id for task in iris.tasks(job_id)}) == 2
    assert [worker["region"] for worker in _placed(iris, job_id)] == ["local"] * 2


@case
def two_slices_of_one_vm(iris: Iris) -> None:
    """Two replicas on single-VM slices need no gang, land on two slices, and are told how many there are."""
    script = 'echo "$IRIS_SLICE_COUNT $IRIS_TASKS_PER_SLICE $IRIS_NUM_TASKS"; sleep 300'
    job_id = iris.launch(argv=("sh", "-c", script), resources=tpu("v5p-8"), replicas=2)
    iris.running(job_id)
    assert len({worker["tpu-name"] for worker in _placed(iris, job_id)}) == 2
    assert iris.printed(job_id, 2) == ["2 1 2", "2 1 2"]
    iris.terminate(job_id)


@case
def one_slice_is_not_counted(iris: Iris) -> None:
    """A job on one slice is not told a slice count."""
    script = 'echo "[$IRIS_SLICE_COUNT] $JAX_PLATFORMS $PJRT_DEVICE"'
    job_id = iris.launch(argv=("sh", "-c", script), resources=tpu("v5p-8"))
    assert iris.printed(job_id) == ["[] tpu,cpu TPU"]


@case
def gang_member_fails(iris: Iris) -> None:
    """When one task of a gang fails, the others are COSCHED_FAILED."""
    script = 'case "$IRIS_TASK_ID" in */1:0) exit 5;; esac; sleep 300'
    job_id = iris.launch(argv=("sh", "-c", script), resources=tpu("v5p-16"), coscheduling=GANG, replicas=2)
    job = iris.finished(job_id)
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_FAILED, 1)
    assert dict(job.task_state_counts) == {"failed": 1, "cosched_failed": 1}
    first, second = iris.tasks(job_id)
    assert (first.state, first.error) == (job_pb2.TASK_STATE_COSCHED_FAILED, f"Coscheduled sibling {job_id}/1 failed")
    assert (second.state, second.exit_code) == (job_pb2.TASK_STATE_FAILED, 5)


@case
def gang_retries_together(iris: Iris) -> None:
    """With budgets a gang whose member fails is placed again as a whole; only the failure is counted."""
    script = 'case "$IRIS_TASK_ID" in */1:0) exit 5;; */0:0) sleep 300;; esac'
    job_id = iris.launch(
        argv=("sh", "-c", script),
        resources=tpu("v5p-16"),
        coscheduling=GANG,
        replicas=2,
        max_retries_failure=1,
        max_task_failures=1,
    )
    job = iris.finished(job_id)
    assert (job.state, job.failure_count) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    first, second = iris.tasks(job_id)
    assert [attempt.state for attempt in second.attempts] == [
        job_pb2.TASK_STATE_FAILED,
        job_pb2.TASK_STATE_SUCCEEDED,
    ]
    assert first.current_attempt_id == second.current_attempt_id == 1
    assert len({worker["tpu-name"] for worker in _placed(iris, job_id)}) == 1


@case
def worker_attributes(iris: Iris) -> None:
    """Workers tell device, slice, rank and place as attributes, and which tasks they run."""
    job_id = iris.launch(argv=("sleep", "300"), resources=tpu("v5p-8"))
    (task,) = iris.running(job_id)
    workers = {worker.worker_id: worker for worker in iris.call(calls.LIST_WORKERS, query={"limit": 100}).workers}
    worker = workers[task.worker_id]
    assert (worker.healthy, worker.scale_group, worker.backend_id) == (True, "tpu_v5p_8", "default")
    assert f"{job_id}/0" in worker.running_job_ids
    attributes = iris.attributes()[worker.worker_id]
    slice_id = attributes.pop("tpu-name")
    assert attributes == {
        "scale-group": "tpu_v5p_8",
        "device-type": "tpu",
        "device-variant": "v5p-8",
        "preemptible": "true",
        "tpu-worker-id": 0,
        "tpu-topology": "v5p-8",
        "tpu-vm-count": 1,
        "region": "local",
        "zone": "local-a",
    }
    assert str(slice_id) in worker.worker_id
    assert [each.worker_id for each in iris.client.workers(contains=worker.worker_id)] == [worker.worker_id]
    assert iris.client.workers(contains="no such worker") == []
    iris.terminate(job_id)


@case
def cpu_worker_attributes(iris: Iris) -> None:
    """A CPU host tells type and place, and nothing of slices."""
    job_id = iris.launch(constraints=[CPU_HOST])
    iris.finished(job_id)
    attributes = _placed(iris, job_id)[0]
    assert {key: attributes[key] for key in ("scale-group", "device-type", "preemptible", "region", "zone")} == {
        "scale-group": "cpu",
        "device-type": "cpu",
        "preemptible": "false",
        "region": "local",
        "zone": "local-a",
    }
    assert "gpu-variant" not in attributes
    assert "tpu-topology" not in attributes


@case
def autoscaler_groups(iris: Iris) -> None:
    """The autoscaler reports each group with its device, and a slice in use as such."""
    job_id = iris.launch(argv=("sleep", "300"), resources=tpu("v5p-16"), coscheduling=GANG, replicas=2)
    iris.running(job_id)
    slice_id = _placed(iris, job_id)[0]["tpu-name"]

    def slice_of_job():
        status = iris.call(calls.GET_AUTOSCALER_STATUS).status
        groups = {group.name: group for group in status.groups}
        assert sorted(groups) == ["cpu", "gpu_h100", "tpu_v4_16", "tpu_v5p_16", "tpu_v5p_8", "tpu_v6e_16"]
        return next((each for each in groups["tpu_v5p_16"].slices if each.slice_id == slice_id), None)

    found = iris.until(slice_of_job, lambda seen: seen is not None and seen.capacity_status == "in_use")
    assert len(found.vms) == 2
    iris.terminate(job_id)


@case
def gangs_on_slices_of_their_own(iris: Iris) -> None:
    """Two gangs that are submitted together are put on two slices."""
    gangs = [
        user.launch(argv=SLEEP, resources=tpu("v5p-16"), coscheduling=GANG, replicas=2)
        for user in (iris, iris.another_user("second"))
    ]
    for gang in gangs:
        iris.running(gang)
    slices = {worker["tpu-name"] for gang in gangs for worker in _placed(iris, gang)}
    assert len(slices) == 2
    for gang in gangs:
        iris.terminate(gang)


@case
def gang_on_a_given_slice(iris: Iris) -> None:
    """A gang can be pinned to a slice by name, and waits there, holding nothing, until the slice is free."""
    second = iris.another_user("second")
    first = iris.launch(argv=SLEEP, resources=tpu("v5p-16"), coscheduling=GANG, replicas=2)
    iris.running(first)
    slice_id = _placed(iris, first)[0]["tpu-name"]
    pin = [{"key": "tpu-name", "value": {"string_value": slice_id}}]
    waiting = second.launch(resources=tpu("v5p-16"), coscheduling=GANG, replicas=2, constraints=pin)
    assert second.pending(waiting, "tpu-name").state == job_pb2.JOB_STATE_PENDING
    assert [task.worker_id for task in iris.tasks(waiting)] == ["", ""]
    iris.terminate(first)
    assert second.finished(waiting).state == job_pb2.JOB_STATE_SUCCEEDED
    assert {worker["tpu-name"] for worker in _placed(iris, waiting)} == {slice_id}


@case
def gang_preempted(iris: Iris) -> None:
    """A gang is preempted as one: it counts once, and without a budget its job ends as WORKER_FAILED."""
    urgent = iris.another_user("urgent")
    # Its own device type, of which there is one slice: any other case's waiting gang would do the same to it.
    gang = {"resources": tpu("v6e-16"), "coscheduling": GANG, "replicas": 4}
    victim = iris.launch(argv=SLEEP, priority_band=job_pb2.PRIORITY_BAND_BATCH, **gang)
    iris.running(victim)
    preemptor = urgent.launch(**gang)
    job = iris.finished(victim)
    assert (job.state, job.preemption_count, job.failure_count) == (job_pb2.JOB_STATE_WORKER_FAILED, 1, 0)
    assert dict(job.task_state_counts) == {"preempted": 1, "cosched_failed": 3}
    assert job.error == f"Preempted by {preemptor}/0"
    siblings = [task for task in iris.tasks(victim) if task.state == job_pb2.TASK_STATE_COSCHED_FAILED]
    assert all(task.error.startswith("Coscheduled sibling ") for task in siblings)
    assert urgent.finished(preemptor).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def slices_without_a_gang(iris: Iris) -> None:
    """Replicas on two slices each get a VM, with no gang, and are told slices and tasks; they have to fill slices."""
    # A device type of its own: these tasks are above the default budget, so that any waiting job would evict them.
    script = 'echo "$IRIS_SLICE_COUNT $IRIS_TASKS_PER_SLICE"; sleep 300'
    job_id = iris.launch("full", ("sh", "-c", script), resources=tpu("v4-16"), replicas=4)
    assert len({task.worker_id for task in iris.running(job_id)}) == 4
    assert iris.printed(job_id, 4) == ["2 2"] * 4
    iris.terminate(job_id)
    job_id = iris.launch("odd", resources=tpu("v4-16"), replicas=3)
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_FAILED
    errors = [task.error for task in iris.tasks(job_id) if task.state == job_pb2.TASK_STATE_FAILED]
    fault = "TPU task count (3) must be divisible by TPU VM count (2) for variant 'v4-16'"
    assert errors
    assert all(fault in error for error in errors)
