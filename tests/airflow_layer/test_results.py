"""The results of commands, results at a URI, secrets in results, and what outlets tell of a job."""

import asyncio
import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors

from fray_airflow import Entrypoint, ResourceConfig, errors
from fray_airflow.decorators import iris_task
from fray_airflow.decorators.iris import _IrisDecoratedOperator
from fray_airflow.lifecycle import delivery
from fray_airflow.operators import IrisSubmitJobOperator
from fray_airflow.operators.outlets import event_extra, tell_outlets
from fray_airflow.results import ResultOptions
from fray_airflow.testing.operator import TaskInstance, execute_once, run_operator

both_modes = pytest.mark.parametrize("deferrable", [False, True], ids=["sync", "deferrable"])

PUSH = """printf %s '{json}' | python3 "$IRIS_WORKDIR/_fray/push_result.py" -"""
SECRET = "hf-secret-value"


@pytest.fixture(autouse=True)
def defer_at_once(monkeypatch):
    """So that a test need not wait until a deferrable task defers."""
    for operator in (IrisSubmitJobOperator, _IrisDecoratedOperator):
        monkeypatch.setattr(operator, "defer_after_seconds", 0)


@pytest.fixture
def token(connect):
    connect("unused", conn_id="hf", password=SECRET)
    return {"TOKEN": "conn:hf"}


def shell(script, **arguments):
    with DAG("pipeline", schedule=None):
        return IrisSubmitJobOperator(task_id="train", command=["bash", "-ec", script], **arguments)


def pushing(value, **arguments):
    return shell(PUSH.format(json=json.dumps(value)), result="file", **arguments)


def function(call, **options):
    with DAG("flow", schedule=None):
        return iris_task(**{"task_id": "train", **options})(call)().operator


@both_modes
def test_a_command_pushes_its_result_as_a_file(running, deferrable):
    """What it prints does not matter, not even a marked line."""
    script = "echo 'FRAY_AIRFLOW_RESULT 1'; " + PUSH.format(json='{"loss": 0.5}')
    run = run_operator(shell(script, result="file", deferrable=deferrable))
    assert run.value["result"] == {"loss": 0.5}
    assert run.deferred is deferrable


def test_files_of_all_replicas_are_a_list(running):
    """By replica."""
    script = 'task=${IRIS_TASK_ID##*/}; echo "${task%%:*}" | python3 "$IRIS_WORKDIR/_fray/push_result.py" -'
    gang = {"resource_config": ResourceConfig.with_tpu("v5p-16"), "result": "file"}
    assert run_operator(shell(script, **gang, result_from="all")).value["result"] == [0, 1]


def test_a_command_that_pushes_nothing_fails_the_task(running, monkeypatch):
    """The error says how to push."""
    monkeypatch.setattr(delivery, "LONGEST_SILENCE", timedelta(0))
    with pytest.raises(errors.JobFailedError, match="command did not push one") as caught:
        run_operator(shell("true", result="file"))
    assert 'python "$IRIS_WORKDIR/_fray/push_result.py" FILE' in str(caught.value)


def test_a_file_that_cannot_come_home_fails_the_job(running):
    """With `bash -e`; the reason is in the error."""
    with pytest.raises(errors.JobFailedError, match="more than max_result_bytes=5 bytes"):
        run_operator(pushing("x" * 10, max_result_bytes=5))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"result": "json"}, "result='json' is unknown; choose from 'line', 'file'"),
        ({"result": "file", "result_from": "best"}, "result_from='best' is unknown; choose from 'first', 'all'"),
        ({"result": "file", "max_result_bytes": 0}, "max_result_bytes=0 is not a positive whole number"),
        ({"result": "file", "wait_for_completion": False}, 'result="file" is read at the end of the job'),
        ({"result_uri": "file:///x", "wait_for_completion": False}, "result_uri is read at the end of the job"),
        ({"result_uri": "{{ run_id }}", "result_from": "all"}, "result_from='all' does not go with result_uri"),
        ({"result_uri": "metrics.json"}, "result_uri='metrics.json': not a URI; write scheme://"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_faulty_arguments_are_found_when_the_dag_is_parsed(arguments, words):
    """With what is valid."""
    with pytest.raises(errors.InvalidSpecError, match=words):
        shell("true", **arguments)


def test_a_function_is_no_command():
    """It has a return value; and a pickle is no JSON for a URI."""
    with DAG("flow", schedule=None):
        with pytest.raises(errors.InvalidSpecError, match='result="file" is for commands'):
            IrisSubmitJobOperator(task_id="a", entrypoint=Entrypoint.from_callable(len), result="file")
        with pytest.raises(errors.InvalidSpecError, match="result='pickle' does not go with result_uri"):
            iris_task(task_id="b", result="pickle", result_uri="file:///x")(lambda: 1)()


@both_modes
def test_a_job_writes_its_result_to_a_uri(running, tmp_path, deferrable):
    """By itself, where a variable tells it; the URI is a template."""
    script = """f="${FRAY_AIRFLOW_RESULT_URI#file://}"; echo '{"loss": 0.5}' > "$f" """
    uri = f"file://{tmp_path}/{{{{ run_id }}}}.json"
    assert run_operator(shell(script, result_uri=uri, deferrable=deferrable)).value["result"] == {"loss": 0.5}
    assert (tmp_path / "run-1.json").exists()


def test_the_script_and_a_function_write_there_too(running, tmp_path):
    """The same call as for a pushed file; a function just returns."""
    uri = f"file://{tmp_path}/new/out.json"
    assert run_operator(shell(PUSH.format(json="[1]"), result_uri=uri)).value["result"] == [1]
    assert run_operator(function(lambda: {"n": 2}, result_uri=uri)).value == {"n": 2}
    assert json.loads((tmp_path / "new" / "out.json").read_text()) == {"n": 2}


def test_an_exception_is_told_with_a_uri_as_well(running, tmp_path):
    """It does not go there, but over the log service."""

    def fail():
        raise KeyError("weights")

    with pytest.raises(errors.JobFailedError, match="raised KeyError: 'weights'"):
        run_operator(function(fail, result_uri=f"file://{tmp_path}/out.json"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no result at file://"),
        ("loss: 1", "is not JSON"),
        ("NaN", "it holds NaN, which JSON does not have"),
        ('"' + "x" * 50 + '"', "has more than max_result_bytes=50 bytes"),
    ],
    ids=["missing", "text", "nan", "large"],
)
def test_what_is_at_the_uri_must_be_small_json(scripted, tmp_path, content, words):
    """The job succeeded, and still the task fails: it was asked for a result."""
    if content is not None:
        (tmp_path / "out.json").write_text(content)
    with pytest.raises(errors.JobFailedError, match=words) as caught:
        run_operator(shell("true", result_uri=f"file://{tmp_path}/out.json", max_result_bytes=50))
    assert caught.value.state == "SUCCEEDED"


def test_a_uri_that_airflow_cannot_read_is_refused_before_submission(scripted):
    """Rather than after hours."""
    with pytest.raises(errors.InvalidSpecError, match=r"apache-airflow-providers-amazon\[s3fs\]"):
        run_operator(shell("true", result_uri="s3://bucket/key.json"))
    assert scripted.calls["LaunchJob"] == 0


@both_modes
@pytest.mark.parametrize(
    ("script", "arguments", "place"),
    [
        (f'echo \'FRAY_AIRFLOW_RESULT {{"env": ["x {SECRET}"]}}\'; sleep 1', {}, r"result\['env'\]\[0\]"),
        (PUSH.format(json=f'{{"{SECRET}": 1}}'), {"result": "file"}, "key 0 of result"),
        (
            PUSH.format(json=f'["{SECRET}"]'),
            {"result_uri": "file:///var/tmp/{{ ti.task_id }}-secret.json"},
            r"result\[0\]",
        ),
    ],
    ids=["line", "file", "uri"],
)
def test_a_result_with_a_secret_is_refused(running, token, deferrable, script, arguments, place):
    """By the secret's name and its place; the value is in no error, XCom or trigger's row and event."""
    stored = []
    operator = shell(script, secrets=token, deferrable=deferrable, **arguments)
    with pytest.raises(errors.JobFailedError, match=f"holds the secret TOKEN, at {place}") as caught:
        run_and_store(operator, stored)
    assert SECRET not in f"{caught.value}{stored}"


@both_modes
def test_a_secret_in_a_pickle_or_an_exception_is_not_stored(running, token, deferrable):
    """Without unpickling it; an exception's text has *** for it."""
    stored = []
    options = {"secrets": token, "deferrable": deferrable}
    text = SECRET

    def leak():
        raise ValueError(f"401 for {text}")

    with pytest.raises(errors.JobFailedError, match="holds the secret TOKEN, at result, a pickle"):
        run_and_store(function(lambda: {text}, result="pickle", **options), stored)
    with pytest.raises(errors.JobFailedError, match="raised ValueError: 401 for"):
        run_and_store(function(leak, task_id="leak", **options), stored)
    assert SECRET not in str(stored)


def test_a_short_secret_refuses_nothing(running, connect):
    """It stands in many texts by chance."""
    connect("unused", conn_id="pin", password="1234567")
    operator = pushing("1234567", secrets={"PIN": "conn:pin"})
    assert run_operator(operator).value["result"] == "1234567"


def run_and_store(operator, stored):
    """Runs it, and keeps what Airflow would: a trigger's arguments, its event, and XComs."""
    ti = TaskInstance("flow", "run-1", operator.task_id)
    stored.append(ti.xcoms)
    try:
        execute_once(operator, ti)
    except TaskDeferred as deferral:
        stored.append(deferral.trigger.serialize())
        event = asyncio.run(anext(deferral.trigger.run())).payload
        stored.append(event)
        operator.execute_complete({"ti": ti}, event)


def test_an_outlets_event_tells_of_the_job(running):
    """Also for a job that nobody waits for; what the author has set stays, and an alias has no event of its own."""
    model, events = Asset("model"), OutletEventAccessors()
    events[model].extra = {"state": "mine", "author": "me"}
    run = run_operator(pushing([0.5]))
    tell_outlets([model, AssetAlias("any"), SimpleNamespace()], events, run.value)
    facts = {name: run.value[name] for name in ("job_id", "queue_seconds", "run_seconds", "chip_seconds")}
    assert events[model].extra == {**facts, "state": "mine", "author": "me", "result": [0.5]}
    assert list(events) == [model]
    assert event_extra({"job_id": "/me/job", "state": "PENDING"}) == {"job_id": "/me/job", "state": "PENDING"}


@pytest.mark.parametrize(
    ("result", "note"),
    [("x" * 65_536, "the result has 65538 bytes, more than 65536"), ({1, 2}, "the result is not JSON")],
    ids=["large", "set"],
)
def test_an_event_leaves_out_what_does_not_fit(result, note):
    """With a note that says so."""
    extra = event_extra({"job_id": "/me/job", "result": result})
    assert note in extra["result_omitted"]
    assert "result" not in extra


def test_what_is_asked_of_an_entrypoint_counts_for_the_operator(running):
    """The same options, wherever they are given."""
    with DAG("flow", schedule=None):
        operator = IrisSubmitJobOperator(
            task_id="train", entrypoint=Entrypoint.from_callable(lambda: 3, result=ResultOptions())
        )
    assert execute_once(operator, TaskInstance("flow", "run-1", "train"))["result"] == 3
