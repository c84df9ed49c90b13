"""Fallbacks and slices through the operator, against the embedded Iris, sync and deferrable."""

import contextlib
import json
import time
from datetime import timedelta

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import TaskDeferralError, TaskDeferred

from fray_airflow import Entrypoint, JobRequest, ResourceConfig, errors
from fray_airflow.iris import IrisClient
from fray_airflow.lifecycle import PlannedJob, Round
from fray_airflow.lifecycle import Submit as Submit_
from fray_airflow.local import Outcome
from fray_airflow.operators import IrisSubmitJobOperator, per_rung
from fray_airflow.operators.explain import explain_operator
from fray_airflow.operators.rungs import rung_job
from fray_airflow.rung import Rung
from fray_airflow.testing.operator import TaskInstance, execute_once, run_operator

PAIR = ResourceConfig.with_tpu("v5p-16")
SINGLE = ResourceConfig.with_tpu("v5p-8")


class Submit(IrisSubmitJobOperator):
    """Defers at once, so that a test need not wait until it does."""

    defer_after_seconds = 0
    first_contact_seconds = 0


def submit(**arguments):
    with DAG("pipeline", schedule=None):
        return Submit(**{"task_id": "train", "command": ["true"], "poll_interval": 0.5, **arguments})


both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


@pytest.fixture
def full(scripted):
    """The only v5p-16 slice is taken by somebody else's job."""
    scripted.script("hog", Outcome.hang())
    with IrisClient(scripted.target, user="other") as client:
        hog = client.submit(JobRequest(name="hog", entrypoint=Entrypoint.from_binary("true"), resources=PAIR))
        yield scripted
        assert not hog.state().finished


def ours(iris):
    with IrisClient(iris.target) as client:
        return {job.job_id: job.state.name for job in client.jobs() if not job.job_id.startswith("/other/")}


@both_modes
def test_a_launch_that_finds_no_machines_takes_the_next_choice(full, deferrable):
    """The first job is ended before the second is submitted, and the result says which choice ran."""
    run = run_operator(
        submit(
            resource_config=PAIR,
            fallback_resource_configs=[SINGLE],
            placement_timeout=1,
            command=["train", "--batch", per_rung("{{ 16 * rung.chips }}"), per_rung(lambda rung: rung.device)],
            deferrable=deferrable,
        )
    )
    first, second = run.value["job_id"].removesuffix("-r1"), run.value["job_id"]
    assert ours(full) == {first: "KILLED", second: "SUCCEEDED"}
    assert run.value["rung"] == 1
    assert run.xcoms["job_id"] == second
    with IrisClient(full.target) as client:
        request = client.job_request(second)
    assert list(request.entrypoint.run_command.argv) == ["train", "--batch", "64", "v5p-8"]
    assert request.environment.env_vars["FRAY_AIRFLOW_RUNG"] == "1"
    assert full.calls["TerminateJob"] == 1


def test_machines_that_the_cluster_does_not_have_are_passed_at_once(scripted):
    """Iris refuses a device that no group of it has, so there is nothing to wait for."""
    nowhere = ResourceConfig.with_tpu("v6e-8")
    run = run_operator(submit(resource_config=nowhere, fallback_resource_configs=[SINGLE], placement_timeout=600))
    assert run.value["rung"] == 1
    assert scripted.calls["TerminateJob"] == 0


@both_modes
def test_a_ladder_without_free_machines_ends_with_the_reasons_of_all(full, deferrable):
    """Every job that was submitted on the way is ended."""
    with pytest.raises(errors.PlacementTimeoutError, match=r"Before it: was not placed in its time") as caught:
        run_operator(
            submit(
                resource_config=PAIR,
                fallback_resource_configs=[{"tpu": "v5p-16", "ram": "64g"}],
                placement_timeout=1,
                deferrable=deferrable,
            )
        )
    assert caught.value.job_id.endswith("-r1")
    assert set(ours(full).values()) == {"KILLED"}


def test_the_same_try_again_goes_on_where_it_had_come(full):
    """A worker that died after the second submission does not start at the top again."""
    arguments = {"resource_config": PAIR, "fallback_resource_configs": [SINGLE], "placement_timeout": 1}
    full.script("*-r1", Outcome.succeed(seconds=3))

    class Dies(Exception):
        pass

    operator = submit(**arguments)
    publish = operator._publish

    def die_after_the_second(job_ids, dashboard_url):
        publish(job_ids, dashboard_url)
        if job_ids[0].endswith("-r1"):
            raise Dies

    operator._publish = die_after_the_second
    with pytest.raises(Dies):
        run_operator(operator)
    run = run_operator(submit(**arguments))
    assert run.value["rung"] == 1
    assert full.calls["LaunchJob"] == 1 + 2


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"fallback_resource_configs": [SINGLE]}, "needs placement_timeout"),
        ({"fallback_resource_configs": [PAIR], "placement_timeout": 9}, "is the same as resource_config"),
        ({"fallback_resource_configs": [SINGLE], "placement_timeout": 9, "job_name": "x"}, "leave out job_name"),
        ({"fallback_resource_configs": [{"tpu": "v9"}], "placement_timeout": 9}, r"fallback_resource_configs\[0\]"),
        (
            {"fallback_resource_configs": [SINGLE, SINGLE], "placement_timeout": 9},
            r"same as fallback_resource_configs\[0\]",
        ),
        ({"fallback_resource_configs": [], "placement_timeout": 9}, r"fallback_resource_configs=\[\] holds no choice"),
        ({"fallback_resource_configs": SINGLE, "placement_timeout": 9}, r"is no list; write \[...\] around"),
        ({"fallback_resource_configs": [SINGLE, None], "placement_timeout": 9}, r"\[1\]=None names no machines"),
        ({"resource_config": ResourceConfig.with_tpu("v5p-16", slice_count=2)}, "would wait for ever"),
        ({"slice_strategy": "both"}, "choose from single_job, job_per_slice"),
        (
            {
                "resource_config": ResourceConfig.with_tpu("v5p-16", slice_count=2),
                "slice_strategy": "job_per_slice",
                "wait_for_completion": False,
            },
            "leave out wait_for_completion=False",
        ),
    ],
)
def test_a_ladder_that_cannot_be_right_is_refused_when_the_dag_is_parsed(arguments, fault):
    """The message names the argument and says what to do."""
    with pytest.raises(errors.InvalidSpecError, match=fault):
        submit(**{"resource_config": PAIR, **arguments})


@pytest.mark.parametrize(
    "argument", ["placement_timeout", "hold_timeout", "job_timeout", "poll_interval", "outage_tolerance"]
)
@pytest.mark.parametrize("value", [-1, 0, timedelta(seconds=-5), "soon", float("nan"), True])
def test_a_duration_that_is_none_is_refused_when_the_dag_is_parsed(argument, value):
    """The message has the argument, the value, and what to give."""
    with pytest.raises(errors.InvalidSpecError) as caught:
        submit(resource_config=PAIR, **{argument: value})
    assert f"{argument}: {value!r} is not a duration; give a timedelta or seconds" in str(caught.value)


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ({"fallback_resource_configs": "{{ params.choices }}"}, "is no list"),
        ({"resource_config": {"tpu": "v5p-16", "slice_count": "{{ params.slices }}"}}, "would wait for ever"),
        ({"placement_timeout": "{{ params.wait }}"}, "-5"),
    ],
)
def test_what_a_template_spoils_is_refused_before_anything_is_submitted(scripted, template, fault):
    """The same errors as at parse time."""
    operator = submit(**{"resource_config": PAIR, **template})
    with pytest.raises(errors.InvalidSpecError, match=fault):
        run_operator(operator, params={"choices": "v5p-8", "slices": 2, "wait": -5})
    assert scripted.calls["LaunchJob"] == 0


def test_the_environment_may_depend_on_the_choice(full):
    run = run_operator(
        submit(
            resource_config=PAIR,
            fallback_resource_configs=[SINGLE],
            placement_timeout=1,
            environment={"env_vars": {"BATCH": per_rung("{{ 16 * rung.chips }}")}},
        )
    )
    with IrisClient(full.target) as client:
        assert client.job_request(run.value["job_id"]).environment.env_vars["BATCH"] == "64"


def test_the_placement_timeout_is_ours(full):
    """Iris's own would count the time of later retries too, and end jobs that had been placed."""
    with pytest.raises(errors.PlacementTimeoutError, match=r"within 1.0 s .*only 0 of 2 have capacity") as caught:
        run_operator(submit(resource_config=PAIR, placement_timeout=1))
    with IrisClient(full.target) as client:
        assert not client.job_request(caught.value.job_id).HasField("scheduling_timeout")
        assert client.job_status(caught.value.job_id).state.name == "KILLED"
    assert "only 0 of 2 have capacity" in caught.value.pending_reason


@both_modes
def test_a_job_on_each_slice_is_one_launch(scripted, deferrable):
    """Two gangs, one result: placement over two slices, lines with the slice, variables that tell them apart."""
    scripted.script("*", Outcome.succeed(["hello"], seconds=1))
    run = run_operator(
        submit(
            resource_config=ResourceConfig.with_tpu("v5p-8", slice_count=2),
            slice_strategy="job_per_slice",
            deferrable=deferrable,
        )
    )
    job_id = run.value["job_id"]
    assert ours(scripted) == {job_id: "SUCCEEDED", f"{job_id}-s1": "SUCCEEDED"}
    assert [row["replica"] for row in run.value["placement"]] == [0, 1]
    assert len({row["slice"] for row in run.value["placement"]}) == 2
    with IrisClient(scripted.target) as client:
        env = client.job_request(f"{job_id}-s1").environment.env_vars
    assert env["FRAY_AIRFLOW_SLICE_INDEX"] == "1"
    assert env["FRAY_AIRFLOW_SLICE_COUNT"] == "2"
    assert json.loads(env["FRAY_AIRFLOW_ROUND"])["number"] == 0


def test_a_slice_knows_the_jobs_of_its_siblings():
    """Iris hides what looks like a key from who asks, but the program sees it."""
    spec = JobRequest(
        name="train",
        entrypoint=Entrypoint.from_binary("true"),
        resources=ResourceConfig.with_tpu("v5p-16", slice_count=2),
    )
    rung = rung_job(spec, "job_per_slice")
    marks = rung.marks(Submit_(PlannedJob("/me/train-t1-r2-s1", "token"), round=Round(2), slice=1))
    assert marks["FRAY_AIRFLOW_SLICE_JOBS"] == "/me/train-t1-r2,/me/train-t1-r2-s1"
    assert rung.job.replica_count == 2
    assert rung.rung == Rung(4, 4, 2, "2 slices of v5p-16", "v5p-16")


@both_modes
def test_a_slice_that_fails_ends_the_others(scripted, deferrable):
    """Nothing computes on for a launch that has failed, and the error is that of the slice that failed."""
    scripted.script("*-s1", Outcome.fail(3, seconds=0.5))
    scripted.script("*", Outcome.hang())
    with pytest.raises(errors.JobFailedError, match="replica 1 ended with exit code 3"):
        run_operator(
            submit(
                resource_config=ResourceConfig.with_tpu("v5p-8", slice_count=2),
                slice_strategy="job_per_slice",
                deferrable=deferrable,
            )
        )
    assert sorted(ours(scripted).values()) == ["FAILED", "KILLED"]


@both_modes
def test_a_launch_of_slices_starts_again_as_a_whole(scripted, deferrable):
    """max_retries_failure counts launches: both jobs of the second one are new."""
    scripted.script("*-s1", Outcome.fail(3, seconds=0.5))
    scripted.script("*-r1", Outcome.succeed(seconds=1))
    scripted.script("*-r1-s1", Outcome.succeed(seconds=1))
    scripted.script("*", Outcome.hang())
    run = run_operator(
        submit(
            resource_config=ResourceConfig.with_tpu("v5p-8", slice_count=2),
            slice_strategy="job_per_slice",
            max_retries_failure=1,
            deferrable=deferrable,
        )
    )
    assert run.value["job_id"].endswith("-r1")
    assert run.value["failure_count"] == 1
    assert sorted(ours(scripted).values()) == ["FAILED", "KILLED", "SUCCEEDED", "SUCCEEDED"]


def test_an_explanation_shows_one_slices_job_and_the_choices_after_it():
    """What is explained is what is submitted."""
    told = explain_operator(
        submit(
            resource_config=ResourceConfig.with_tpu("v5p-16", slice_count=2),
            slice_strategy="job_per_slice",
            fallback_resource_configs=[SINGLE],
            placement_timeout=60,
            max_retries_failure=1,
        )
    )
    assert told.replicas == 2
    assert told.outlook[:3] == (
        "This is the job of one of 2 slices of v5p-16: 2 of it are launched and treated as one.",
        "When one of them fails or loses its machines, all are ended and launched again: after failures up to 1 times, "
        "after losses up to 100 times.",
        "When it is not placed in placement_timeout, choice 1 follows: v5p-8.",
    )
    assert "The first replica that loses its machine ends the job." in " ".join(told.outlook)
    assert not any("never places" in line or "starts again" in line for line in told.outlook)


def test_the_last_try_of_a_lost_trigger_ends_the_jobs_of_all_slices(scripted):
    """Airflow fails the task without a word to the trigger; nobody comes to adopt them."""
    scripted.script("*", Outcome.hang())
    operator = submit(
        resource_config=ResourceConfig.with_tpu("v5p-8", slice_count=2), slice_strategy="job_per_slice", deferrable=True
    )
    ti = TaskInstance("pipeline", "run-1", "train")
    with pytest.raises(TaskDeferred):
        execute_once(operator, ti)
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, {"ti": ti})
    assert list(ours(scripted).values()) == ["KILLED", "KILLED"]


# On the real Iris


def test_the_real_iris_runs_a_gang_on_each_of_two_slices(real_iris_connect, connect):
    """What it never places as one job it places as two, on two slices, and each program knows which it is."""
    connect(real_iris_connect.target, login="slices")
    # Long enough to be there at the same time: a slice that is free again would be taken twice.
    say = 'sleep 6; echo "slice $FRAY_AIRFLOW_SLICE_INDEX of $FRAY_AIRFLOW_SLICE_COUNT" "$FRAY_AIRFLOW_SLICE_JOBS"'
    run = run_operator(
        submit(
            resource_config=ResourceConfig.with_tpu("v5p-16", slice_count=2),
            slice_strategy="job_per_slice",
            command=["bash", "-c", say],
            placement_timeout=120,
            deferrable=True,
        )
    )
    job_id = run.value["job_id"]
    jobs = [job_id, f"{job_id}-s1"]
    assert [row["replica"] for row in run.value["placement"]] == [0, 1, 2, 3]
    slices = [row["slice"] for row in run.value["placement"]]
    assert slices[0] == slices[1] != slices[2] == slices[3]
    with IrisClient(real_iris_connect.target) as client:
        for number, name in enumerate(jobs):
            told = {line.text for line in client.logs(name).lines if line.text.startswith("slice")}
            assert told == {f"slice {number} of 2 {','.join(jobs)}"}


def test_the_real_iris_is_asked_for_the_next_choice_when_the_first_is_full(real_iris_connect, connect):
    """Three users hold every slice of the first choice; one user's second job would be in band BATCH, and give way."""
    connect(real_iris_connect.target, login="ladder")
    sleep = Entrypoint.from_binary("sleep", ["300"])
    with contextlib.ExitStack() as stack:
        for number in range(3):
            client = stack.enter_context(IrisClient(real_iris_connect.target, user=f"hog-{number}"))
            hog = client.submit(JobRequest(name="hog", entrypoint=sleep, resources=PAIR))
            stack.callback(hog.terminate)
            until = time.monotonic() + 60
            while not all(task.placed for task in client.tasks(hog.job_id)):
                assert time.monotonic() < until
                time.sleep(0.2)
        run = run_operator(
            submit(resource_config=PAIR, fallback_resource_configs=[SINGLE], placement_timeout=4, deferrable=True)
        )
        first = run.value["job_id"].removesuffix("-r1")
        assert run.value["rung"] == 1
        assert client.job_status(first).state.name == "KILLED"
