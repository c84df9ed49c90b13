"""What the read calls show: fields that are filled and fields that never are, filters and pages."""

from __future__ import annotations

import pytest

from fray_airflow.iris._gen import controller_pb2
from fray_airflow.local import Fleet, Outcome

C = controller_pb2.Controller


def names(iris, **query):
    query.setdefault("limit", 100)
    reply = iris.call("ListJobs", C.ListJobsRequest(query=C.JobQuery(**query)))
    return [row.job_id for row in reply.jobs]


@pytest.fixture
def many(iris, job):
    for name in ("/a/Alpha", "/b/beta", "/a/Alpha/child"):
        iris.launch(job(name, require={"nobody": "has"}))
    iris.terminate("/b/beta")
    return iris


def test_a_job_status_never_says_some_things(iris, job):
    """Readers must not wait for status_message, ports, tasks, build_metrics or submitting_user."""
    iris.launch(job(ports=["http"]))
    iris.until_ended("/a/j")
    status = iris.status("/a/j")
    assert (status.status_message, dict(status.ports), list(status.tasks), status.submitting_user) == ("", {}, [], "")
    assert not status.HasField("build_metrics")
    assert not iris.tasks("/a/j")[0].ports


def test_zero_counts_are_set_and_zero_states_are_not_counted(iris, job):
    iris.launch(job())
    status = iris.status("/a/j")
    for field in ("exit_code", "error", "failure_count", "preemption_count", "completed_count", "parent_job_id"):
        assert status.HasField(field)
    assert dict(status.task_state_counts) == {"pending": 1}
    assert (status.backend_id, status.cluster) == ("default", "local")


def test_a_task_shows_where_it_runs(iris, job):
    iris.script("j", Outcome.hang())
    iris.launch(job())
    assert iris.tasks("/a/j")[0].current_attempt_id == -1
    iris.until_running("/a/j")
    (task,) = iris.tasks("/a/j")
    worker = iris.workers()[task.worker_id]
    assert task.worker_address == ""
    assert task.container_id.startswith("local-")
    assert len(task.attempts[0].attempt_uid) == 16
    # The field's name says jobs.
    assert list(worker.running_job_ids) == ["/a/j/0"]


@pytest.mark.parametrize(
    ("outcomes", "listed"),
    [
        ([Outcome.fail(1), Outcome.fail(2), Outcome.preempt(), Outcome.succeed()], [1, 3]),
        ([Outcome.lose_worker(), Outcome.lose_worker(), Outcome.fail(1), Outcome.succeed()], [1, 2, 3]),
        ([Outcome.fail(1), Outcome.fail(2), Outcome.kill()], [1, 2]),
        ([Outcome.fail(number) for number in range(1, 7)], [5]),
    ],
)
def test_listed_attempts_are_bounded(iris, job, outcomes, listed):
    """The current one, the latest that failed and the latest that lost its worker. Preempted ones disappear."""
    iris.script("j", *outcomes)
    iris.launch(job(max_retries_failure=5, max_task_failures=5, max_retries_preemption=5))
    iris.until_ended("/a/j", seconds=60)
    assert [attempt.attempt_id for attempt in iris.tasks("/a/j")[0].attempts] == listed


def test_only_the_job_says_why_a_first_attempt_waits(iris, job):
    iris.launch(job(require={"nobody": "has"}))
    iris.run(2)
    (task,) = iris.tasks("/a/j")
    assert (task.can_be_scheduled, task.pending_reason) == (True, "")
    assert "['nobody']" in iris.status("/a/j").pending_reason


def test_workers_carry_the_attributes_of_their_kind(iris):
    found = {}
    for worker in iris.workers().values():
        found[worker.scale_group] = {
            key: value.string_value if value.HasField("string_value") else value.int_value
            for key, value in worker.metadata.attributes.items()
        }
    assert found["cpu"] == {
        "scale-group": "cpu",
        "device-type": "cpu",
        "preemptible": "false",
        "region": "local",
        "zone": "local-a",
    }
    tpu = found["tpu_v5p_16"]
    assert tpu["tpu-name"].startswith("iris-tpu-v5p-16-")
    assert {key: tpu[key] for key in tpu if key != "tpu-name"} == {
        "scale-group": "tpu_v5p_16",
        "device-type": "tpu",
        "device-variant": "v5p-16",
        "preemptible": "true",
        "tpu-worker-id": 1,
        "tpu-topology": "v5p-16",
        "tpu-vm-count": 2,
        "region": "local",
        "zone": "local-a",
    }
    gpu = found["gpu_h100"]
    assert (gpu["device-variant"], gpu["gpu-variant"], gpu["gpu-count"]) == ("h100", "h100", 8)


def test_workers_are_found_by_part_of_their_id(iris):
    reply = iris.call("ListWorkers", C.ListWorkersRequest(query=C.WorkerQuery(contains="V5P-16", limit=3)))
    assert (len(reply.workers), reply.total_count, reply.has_more) == (3, 4, True)


def test_the_newest_jobs_come_first(many):
    assert names(many) == ["/a/Alpha/child", "/b/beta", "/a/Alpha"]
    assert names(many, sort_field=C.JOB_SORT_FIELD_NAME) == ["/a/Alpha", "/a/Alpha/child", "/b/beta"]
    assert names(many, sort_direction=C.SORT_DIRECTION_ASC)[0] == "/a/Alpha"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state_filter": "KILLED"}, ["/b/beta"]),
        ({"state_filter": "nonsense"}, []),
        ({"name_filter": "ALPHA/"}, ["/a/Alpha/child"]),
        ({"name_filter": "b_ta"}, ["/b/beta"]),
        ({"name_filter": "a%ch"}, ["/a/Alpha/child"]),
        ({"name_filter": "b.ta"}, []),
        ({"job_id_prefix": "/A/alpha"}, ["/a/Alpha/child", "/a/Alpha"]),
        ({"job_id_prefix": "/%"}, []),
        ({"job_id_prefix": "/_/"}, []),
        ({"scope": C.JOB_QUERY_SCOPE_ROOTS}, ["/b/beta", "/a/Alpha"]),
        ({"scope": C.JOB_QUERY_SCOPE_CHILDREN, "parent_job_id": "/a/Alpha"}, ["/a/Alpha/child"]),
        ({"backend_id": "other"}, []),
    ],
)
def test_jobs_are_filtered(many, query, found):
    assert names(many, **query) == found


def test_pages_and_their_limits(many):
    reply = many.call("ListJobs", C.ListJobsRequest(query=C.JobQuery(limit=2)))
    assert (len(reply.jobs), reply.total_count, reply.has_more) == (2, 3, True)
    assert not reply.jobs[0].HasField("resources")
    for limit in (-1, 0, 501):
        reply = many.call("ListJobs", C.ListJobsRequest(query=C.JobQuery(limit=limit, offset=-1)))
        assert (len(reply.jobs), reply.has_more) == (3, False)
    assert names(many, offset=5000) == []
    far = C.ListJobsRequest(query=C.JobQuery(limit=1, offset=5001))
    assert many.refusal("ListJobs", far).code == "invalid_argument"
    orphans = C.ListJobsRequest(query=C.JobQuery(limit=1, scope=C.JOB_QUERY_SCOPE_CHILDREN))
    assert many.refusal("ListJobs", orphans).code == "invalid_argument"


def autoscaler(iris):
    return iris.call("GetAutoscalerStatus", C.GetAutoscalerStatusRequest()).status


def test_the_autoscaler_shows_slices_and_their_use(make_iris, job):
    iris = make_iris(Fleet.of(tpu={"v5p-16": 2}))
    iris.script("j", Outcome.hang())
    iris.launch(job(tpu="v5p-16", replicas=2, gang="tpu-name"))
    iris.until_running("/a/j")
    (group,) = autoscaler(iris).groups
    assert (group.device_type, group.device_variant, group.availability_status) == ("tpu", "v5p-16", "at_max_slices")
    assert sorted((each.state, each.capacity_status, len(each.vms)) for each in group.slices) == [
        ("ready", "available", 2),
        ("ready", "in_use", 2),
    ]
    assert group.slice_state_counts["ready"] == 2
    assert group.idle_threshold_ms == 600_000


def test_a_slice_with_a_dead_vm_is_degraded(make_iris):
    iris = make_iris(Fleet.of(tpu={"v5p-16": 1}))
    iris.cluster.lose_worker(next(iter(iris.workers())))
    (group,) = autoscaler(iris).groups
    (broken,) = group.slices
    assert (broken.capacity_status, broken.degraded_slot_count, broken.vms[0].usability) == ("degraded", 1, "degraded")
    iris.run(5)
    assert autoscaler(iris).groups[0].slices[0].capacity_status == "available"


def test_waiting_gangs_are_unmet_demand(make_iris, job):
    iris = make_iris(Fleet.of(tpu={"v5p-16": 1}))
    iris.script("*", Outcome.hang(), Outcome.hang())
    for name in ("/a/x", "/a/y"):
        iris.launch(job(name, tpu="v5p-16", replicas=2, gang="tpu-name"))
    iris.run(2)
    (unmet,) = autoscaler(iris).last_routing_decision.unmet_entries
    assert (unmet.entry.device_variant, list(unmet.entry.task_ids)) == ("v5p-16", ["/a/y/0", "/a/y/1"])
    assert unmet.reason == "no_capacity: tpu_v5p_16=at_max_slices"
