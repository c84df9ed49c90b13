"""Constraints and devices: what is refused at once, what waits, what the controller adds."""

from __future__ import annotations

import json

from casebook import add_case, case
from iris_under_test import NEVER, Iris, gpu, tpu

from fray_airflow.iris._gen import job_pb2

GANG = {"group_by": "tpu-name"}


def rule(key: str, op: str, *values: str | int, **fields) -> dict:
    """A constraint; IN takes its operands in `values`, the others one in `value`."""
    operands = [{"string_value": value} if isinstance(value, str) else {"int_value": value} for value in values]
    filled = {"values": operands} if op == "IN" else {"value": operands[0]} if operands else {}
    return {"key": key, "op": f"CONSTRAINT_OP_{op}", **filled, **fields}


REFUSED = {
    "in-without-values": (
        "IN needs a value.",
        {"constraints": [rule("region", "IN")]},
        "internal",
        "Constraint op IN requires 1..∞ values, got 0",
    ),
    "unknown-operator": (
        "An operator that does not exist is refused.",
        {"constraints": [{**NEVER[-1], "op": 77}]},
        "internal",
        "77 is not a valid ConstraintOp",
    ),
    "two-regions": (
        "Two different regions contradict each other.",
        {"constraints": [rule("region", "EQ", "local"), rule("region", "EQ", "elsewhere")]},
        "internal",
        "conflicting region constraints",
    ),
    "unknown-region": (
        "A region that no group is in is refused.",
        {"constraints": [rule("region", "EQ", "us-central2")]},
        "failed_precondition",
        "no groups in region us-central2",
    ),
    "unknown-zone": (
        "A zone that no group is in is refused.",
        {"constraints": [rule("zone", "EQ", "us-central2-b")]},
        "failed_precondition",
        "us-central2-b",
    ),
    "unknown-device": (
        "A device that nobody offers is refused.",
        {"resources": gpu("A100-80G", 1)},
        "failed_precondition",
        "no scaling group provides device gpu:a100-80g (available: ",
    ),
    "unknown-tpu": (
        "A TPU type that nobody offers is refused.",
        {"resources": tpu("v4-8")},
        "failed_precondition",
        "no scaling group provides device tpu:v4-8 (available: ",
    ),
    "spot-tpu-not-preemptible": (
        "A TPU that exists only as spot cannot be had otherwise.",
        {"resources": tpu("v5p-16"), "constraints": [rule("preemptible", "EQ", "false")]},
        "failed_precondition",
        "no non-preemptible group provides device tpu:v5p-16",
    ),
    "chips-per-vm": (
        "The chip count of a TPU is that of one VM.",
        {"resources": tpu("v5p-16", 8)},
        "invalid_argument",
        "TPU chip count mismatch: ",
    ),
    "alternatives-of-another-shape": (
        "TPU alternatives have the same VMs.",
        {"resources": tpu("v5p-8"), "constraints": [rule("device-variant", "IN", "v5p-8", "v5p-16")]},
        "invalid_argument",
        "TPU variant alternatives have incompatible VM shapes: ",
    ),
    "unknown-cluster": (
        "A job cannot be pinned to a cluster that is no peer, nor to this one by name.",
        {"constraints": [rule("cluster", "EQ", "local")]},
        "invalid_argument",
        "pins cluster 'local', which is not a configured federation peer",
    ),
    "gang-without-level": (
        "Coscheduling names the level to gang on.",
        {"coscheduling": {}, "replicas": 2},
        "invalid_argument",
        "coscheduling requires a non-empty group_by (the topology level to gang on)",
    ),
    "gang-not-a-multiple": (
        "A gang's replicas are a multiple of the VMs of a slice.",
        {"resources": tpu("v5p-16"), "coscheduling": GANG, "replicas": 3},
        "failed_precondition",
        "job requires 3 coscheduled replicas but no matching scaling group has a compatible size "
        "(replicas must be an exact multiple of num_vms)",
    ),
    "availability-of-nothing": (
        "Availability of a device that no group has is refused.",
        {"constraints": [rule("availability:v4-8", "EXISTS")]},
        "failed_precondition",
        "v4-8",
    ),
}


def _refused(fields: dict, code: str, text: str):
    def run(iris: Iris) -> None:
        refusal = iris.refused_launch(**fields)
        assert refusal.code == code, refusal
        assert text in str(refusal)

    return run


for _name, (_statement, _fields, _code, _text) in REFUSED.items():
    add_case(f"refused-{_name}", _statement, _refused(_fields, _code, _text))


@case
def constraint_echo(iris: Iris) -> None:
    """Texts of constraints are stripped and lower-cased."""
    echo = iris.echo(iris.launch(constraints=[rule("some-key", "IN", " MiXed ", "B"), rule("n", "EQ", 3), *NEVER]))
    first, second, *_ = echo.constraints
    assert [value.string_value for value in first.values] == ["mixed", "b"]
    assert second.value.int_value == 3
    iris.terminate(f"/{iris.user}/job")


@case
def constraints_from_device(iris: Iris) -> None:
    """A device becomes constraints on type and variant, which the submitter's own on that key replace."""

    def constraints(name: str, **fields) -> list[tuple[str, list[str]]]:
        job_id = iris.launch(name, **fields, replicas=1)
        echo = iris.echo(job_id).constraints
        iris.terminate(job_id)
        return sorted(
            (each.key, [value.string_value for value in each.values] or [each.value.string_value]) for each in echo
        )

    plain = [("device-type", ["tpu"]), ("device-variant", ["v5p-8"])]
    assert constraints("tpu", resources=tpu("V5P-8")) == plain
    own = [rule("device-variant", "IN", "v5p-8")]
    assert constraints("own", resources=tpu("v5p-8"), constraints=own) == plain
    assert constraints("auto", resources=gpu("auto", 1), priority_band=job_pb2.PRIORITY_BAND_BATCH) == [
        ("device-type", ["gpu"])
    ]
    assert constraints("cpu") == []


@case
def constraint_on_number(iris: Iris) -> None:
    """Numbers are compared, so that a task can ask for the second VM of a slice."""
    second = rule("tpu-worker-id", "GE", 1)
    job_id = iris.launch(resources={**tpu("v5p-16"), "cpu_millicores": 1000}, constraints=[second])
    iris.finished(job_id)
    attributes = iris.attributes()[iris.task(job_id).worker_id]
    assert attributes["tpu-worker-id"] == 1


@case
def constraint_on_absence(iris: Iris) -> None:
    """NOT_EXISTS of an attribute that nobody has suits every worker, and so does NE."""
    job_id = iris.launch(constraints=[rule("no-such-attribute", "NOT_EXISTS")])
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def constraint_preferred(iris: Iris) -> None:
    """A preferred constraint that nobody meets does not hold a job up."""
    job_id = iris.launch(constraints=[{**NEVER[-1], "mode": job_pb2.CONSTRAINT_MODE_PREFERRED}])
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def constraint_on_region(iris: Iris) -> None:
    """Region and zone, any case, choose workers; the task is told its region and these constraints."""
    script = 'echo "$IRIS_WORKER_REGION"; echo "$IRIS_JOB_CONSTRAINTS"'
    places = [rule("region", "IN", "LOCAL", "elsewhere"), rule("zone", "EQ", "local-a")]
    job_id = iris.launch(argv=("sh", "-c", script), constraints=places)
    region, constraints = (line.data for line in iris.lines(job_id, 2))
    assert region == "local"
    assert [each["key"] for each in json.loads(constraints)] == ["region", "zone"]
    attributes = iris.attributes()[iris.task(job_id).worker_id]
    assert (attributes["region"], attributes["zone"]) == ("local", "local-a")


@case
def not_preemptible(iris: Iris) -> None:
    """A job that insists on machines that stay is put on one."""
    job_id = iris.launch(constraints=[rule("preemptible", "EQ", "false")])
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED
    assert iris.attributes()[iris.task(job_id).worker_id]["preemptible"] == "false"


@case
def availability(iris: Iris) -> None:
    """A CPU job may wait until a device can be had."""
    job_id = iris.launch(constraints=[rule("availability:v5p-16", "EXISTS")])
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def chips_unsaid(iris: Iris) -> None:
    """A TPU without a chip count is not checked."""
    job_id = iris.launch(resources=tpu("v5p-8", 0))
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED


@case
def gpu_count_unsaid(iris: Iris) -> None:
    """A GPU without a count runs on a GPU host."""
    job_id = iris.launch(resources=gpu("H100", 0), priority_band=job_pb2.PRIORITY_BAND_BATCH)
    assert iris.finished(job_id).state == job_pb2.JOB_STATE_SUCCEEDED
    assert iris.attributes()[iris.task(job_id).worker_id]["gpu-variant"] == "h100"


@case
def region_exists(iris: Iris) -> None:
    """That a region exists is accepted as a constraint where groups have regions."""
    job_id = iris.launch(constraints=[rule("region", "EXISTS")])
    assert [each.key for each in iris.echo(job_id).constraints] == ["region"]
    iris.terminate(job_id)
