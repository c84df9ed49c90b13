"""`@task.iris` in operators that run without a database, on a local Iris with real processes, sync and deferrable."""

import json
import math
import threading
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, task, teardown
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from fray_airflow import Entrypoint, ResourceConfig, errors
from fray_airflow.decorators import iris_task
from fray_airflow.decorators.context_values import values_for, wanted
from fray_airflow.decorators.iris import _IrisDecoratedOperator
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.results import ResultOptions
from fray_airflow.testing.operator import run_operator

both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])


@pytest.fixture(autouse=True)
def defer_at_once(monkeypatch):
    """So that a test need not wait until a deferrable task defers."""
    monkeypatch.setattr(_IrisDecoratedOperator, "defer_after_seconds", 0)


def operator_of(function, *args, options=None, dag=None, **kwargs):
    """The operator that calling the decorated function makes."""
    with DAG("flow", schedule=None, **(dag or {})):
        return iris_task(**{"task_id": "train", **(options or {})})(function)(*args, **kwargs).operator


def outcome_of(function, *args, options=None, dag=None, **kwargs):
    return run_operator(operator_of(function, *args, options=options, dag=dag, **kwargs))


@both_modes
def test_the_task_returns_what_the_function_returned(running, deferrable):
    """The facts of the job are beside it, plain JSON without the result."""

    def add(a, b=0, *, c):
        return {"sum": a + b + c}

    run = outcome_of(add, 1, b=2, c=3, options={"deferrable": deferrable})
    assert run.value == {"sum": 6}
    assert run.deferred is deferrable
    facts = run.xcoms["iris_job"]
    assert facts["state"] == "SUCCEEDED"
    assert facts["job_id"] == run.xcoms["job_id"]
    assert "result" not in facts


def test_a_function_that_returns_nothing_returns_none(running):
    """None is a result too; the task does not wait for another."""
    assert outcome_of(lambda: None).value is None


@both_modes
def test_a_remote_exception_is_told_by_type_text_and_traceback(running, deferrable):
    """The error is the one of a job that failed, so Airflow retries it as the task's `retries` say."""

    def train():
        def step():
            raise KeyError("weights")

        step()

    with pytest.raises(errors.JobFailedError) as caught:
        outcome_of(train, options={"deferrable": deferrable})
    text = str(caught.value)
    assert "replica 0 raised KeyError: 'weights'" in text
    assert "Its traceback ends:" in text
    assert "in step" in text
    assert caught.value.exit_code == 1
    assert isinstance(caught.value, AirflowException)
    assert not isinstance(caught.value, AirflowFailException)


def test_results_of_all_replicas_are_a_list(running):
    """By replica; each knows its own number."""

    def rank():
        import os

        return int(os.environ["IRIS_TASK_ID"].rpartition("/")[2].partition(":")[0])

    gang = {"resource_config": ResourceConfig.with_tpu("v5p-16")}
    assert outcome_of(rank, options={**gang, "result_from": "all"}).value == [0, 1]
    assert outcome_of(rank, options=gang).value == 0


@both_modes
def test_a_pickled_result_is_unpickled_on_the_worker(running, deferrable):
    """The author allowed it."""
    assert outcome_of(lambda: {1, 2}, options={"result": "pickle", "deferrable": deferrable}).value == {1, 2}


def test_a_result_that_cannot_be_unpickled_here_is_an_error(running):
    """The job's facts are there all the same."""

    def remote():
        class Odd:
            def __reduce__(self):
                return eval, ("1/0",)

        return Odd()

    with pytest.raises(errors.JobFailedError, match=r"SUCCEEDED, but its result cannot be used.*ZeroDivisionError"):
        outcome_of(remote, options={"result": "pickle"})


@pytest.mark.parametrize(
    ("value", "options", "words"),
    [
        (math.nan, {}, "result is nan, which JSON does not have"),
        ({1, 2}, {}, "result is a builtins.set, which is not JSON"),
        ("x" * 100, {"max_result_bytes": 50}, "the result has 102 bytes as JSON, more than max_result_bytes=50"),
    ],
    ids=["nan", "set", "large"],
)
def test_a_result_that_cannot_come_home_fails_the_job(running, value, options, words):
    """The reason is in the error."""
    with pytest.raises(errors.JobFailedError) as caught:
        outcome_of(lambda: value, options=options)
    assert words in str(caught.value)


def test_a_module_that_the_environment_lacks_is_named(running, tmp_path, monkeypatch):
    """A helper beside the DAG file is not on the cluster, as no workspace ships it."""
    (tmp_path / "only_here.py").write_text("VALUE = 1\ndef get(): return VALUE\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(errors.JobFailedError, match="needs the module 'only_here', which this environment lacks"):
        outcome_of(lambda: only_here.VALUE)


def test_an_argument_that_cannot_be_pickled_is_refused_before_anything_is_submitted(running):
    """Trying again does not help."""
    with pytest.raises(errors.InvalidSpecError, match="cannot be pickled") as caught:
        outcome_of(lambda lock: None, threading.Lock())
    assert isinstance(caught.value, AirflowFailException)
    assert running.calls["LaunchJob"] == 0


def test_a_retry_reads_the_result_that_nobody_read(running):
    """The job ran once: its worker died before the end."""

    def count():
        return "once"

    operator = operator_of(count, options={"retries": 1})
    operator.wait_for_completion = False
    run_operator(operator)
    again = run_operator(operator_of(count, options={"retries": 1}), try_number=2)
    assert again.value == "once"
    assert running.calls["LaunchJob"] == 1


def test_arguments_never_go_into_variables(running):
    """A variable has room for 128 KiB, and shows in the dashboard."""

    def look(data):
        import os

        return len(data), any("secret" in value for value in os.environ.values())

    assert outcome_of(look, "secret" * 50_000).value == [300_000, False]


def test_context_values_come_to_those_who_name_them(running):
    """As plain values, and an argument of the same name wins."""

    def named(params, run_id="overridden later"):
        return [params, run_id]

    def all_of_it(**kwargs):
        return sorted(kwargs)

    assert outcome_of(lambda params, run_id: [params, run_id], dag={"params": {"n": 3}}).value == [{"n": 3}, "run-1"]
    assert outcome_of(lambda run_id: run_id, run_id="mine", options={"task_id": "given"}).value == "mine"
    assert outcome_of(all_of_it, options={"task_id": "all_of_it"}).value == []
    with pytest.raises(ValueError, match="default other than None"):
        operator_of(named)


@pytest.mark.parametrize("name", ["ti", "dag_run", "task_instance", "var"])
def test_what_leads_back_to_airflow_is_refused_by_name(name):
    """When the DAG is parsed, with what to do instead."""
    function = eval(f"lambda {name}: None")
    with pytest.raises(errors.InvalidSpecError, match=f"the parameter {name} stands for Airflow's {name}") as caught:
        operator_of(function)
    assert "pass what you need of it as an argument" in str(caught.value)


def test_times_of_the_context_are_the_standard_librarys():
    """The cluster need not have pendulum."""
    import pendulum

    moment = pendulum.datetime(2026, 1, 1, 12, tz="Europe/Berlin")
    values = values_for(
        ["logical_date", "day", "span", "many"],
        {"logical_date": moment, "day": moment.date(), "span": moment - moment.subtract(hours=1), "many": (1, None)},
    )
    assert {type(value).__module__ for value in values.values()} == {"datetime", "builtins"}
    assert values["logical_date"] == moment
    assert values["span"].total_seconds() == 3600
    assert values["many"] == [1, None]
    with pytest.raises(errors.InvalidSpecError, match="the parameter x stands for Airflow's SimpleNamespace"):
        values_for(["x"], {"x": SimpleNamespace()})
    with pytest.raises(errors.InvalidSpecError, match="Airflow has no ts for this task"):
        values_for(["ts"], {})


def test_arguments_by_position_are_not_taken_from_the_context():
    """Keyword-only parameters come after them."""

    def function(ds, *, ts, run_id=None, **kwargs): ...

    known = ["ds", "ts", "run_id", "ti", "kwargs"]
    assert wanted(function, ["2026-01-01"], {"ts": "x"}, known) == ["run_id"]
    assert wanted(function, [], {}, known) == ["ds", "ts", "run_id"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"result": "yaml"}, "result='yaml' is unknown"),
        ({"result_from": "best"}, "result_from='best' is unknown"),
        ({"max_result_bytes": -1}, "max_result_bytes=-1 is not a positive whole number"),
        ({"command": ["true"]}, "the function is what runs"),
        ({"wait_for_completion": False}, "has no result to return"),
        ({"resource_config": {"tpu": "v5p-17"}}, "v5p-16"),
        ({"entrypoint": Entrypoint.from_binary("true")}, "entrypoint is given, but the function is what runs"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_faulty_arguments_are_found_when_the_dag_is_parsed(options, words):
    """Also when the function's own arguments are not known yet."""
    with DAG("upstream", schedule=None):

        @task
        def upstream(): ...

        with pytest.raises(errors.InvalidSpecError, match=words):
            iris_task(task_id="train", **options)(lambda data: None)(upstream())


def test_arguments_of_the_operator_are_templates_and_defaults_of_the_dag(running):
    """As everywhere in Airflow; so are the function's own texts."""

    def see(text):
        import os

        return [text, os.environ["SET"]]

    dag = {"params": {"x": "rendered"}, "default_args": {"environment": {"env_vars": {"SET": "{{ params.x }}"}}}}
    assert outcome_of(see, "{{ params.x }}!", dag=dag).value == ["rendered!", "rendered"]


def test_override_changes_one_call():
    """The decorated function itself stays as it was."""
    with DAG("flow", schedule=None):

        @task.iris(resource_config={"cpu": 1})
        def train(): ...

        small, large = train().operator, train.override(task_id="large", resource_config={"cpu": 8})().operator
    assert (small.resource_config["cpu"], large.resource_config["cpu"]) == (1, 8)
    assert (small.task_id, large.task_id) == ("train", "large")
    assert small.custom_operator_name == "@task.iris"


def test_a_decorated_function_can_be_a_teardown():
    """Airflow's own decorators go around it."""
    with DAG("flow", schedule=None):

        @teardown
        @task.iris(resource_config={"cpu": 1})
        def clean(): ...

        operator = clean().operator
    assert operator.is_teardown
    assert isinstance(operator, _IrisDecoratedOperator)


def test_the_same_dag_has_the_same_hash_on_every_parse():
    """No address of a function is in it, or Airflow would see a new version of the DAG every few seconds."""
    from airflow.serialization.serialized_objects import DagSerialization

    def parse():
        with DAG("flow", schedule=None) as dag:

            @task.iris(resource_config={"cpu": 1})
            def train(rate, hook=None): ...

            train(1)
            train.partial(hook=len).expand(rate=[1, 2])
        return json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str)

    assert parse() == parse()


def test_an_entrypoint_can_ask_for_its_result(running):
    """The operator then returns the function's value among the facts, with no marked line."""
    with DAG("flow", schedule=None):
        operator = IrisSubmitJobOperator(
            task_id="train", entrypoint=Entrypoint.from_callable(lambda: [1, 2], result=ResultOptions())
        )
    assert run_operator(operator).value["result"] == [1, 2]
