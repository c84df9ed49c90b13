"""explain, of a spec and of a task, and the operator's dry_run."""

import json
import textwrap

import pytest
from google.protobuf import text_format

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris._gen.controller_pb2 import Controller
from fray_airflow.iris.explain import explain
from fray_airflow.local import Fleet, LocalIris
from fray_airflow.testing.airflow import load_dags

DAG = """
from datetime import timedelta
from airflow.sdk import DAG, task
from fray_airflow import ResourceConfig, create_environment
from fray_airflow.operators import IrisSubmitJobOperator

with DAG("shown", schedule=None, params={"tpu": "v5p-16"}):
    IrisSubmitJobOperator(
        task_id="plain",
        resource_config=ResourceConfig.with_tpu("v5p-16", preemptible=False),
        environment=create_environment(files={"train.py": "train.py"}),
        secrets={"HF_TOKEN": "conn:not_there", "EXTRA": "var:not_there"},
        secrets_as_env=True,
        command=["python", "train.py"],
        max_retries_failure=2,
        job_timeout=timedelta(hours=1),
    )
    IrisSubmitJobOperator(
        task_id="templated",
        resource_config={"tpu": "{{ params.tpu }}", "slice_count": 2, "ram": "8g", "regions": ["{{ params.r }}", "b"]},
        command="python train.py --date {{ ds }}",
        environment={"env_vars": {"STORE": "{{ run_id }}"}},
        max_retries_failure="{{ params.retries }}",
        job_name="job-{{ ds_nodash }}",
    )
    IrisSubmitJobOperator.partial(task_id="mapped").expand(command=[["echo", "one"], ["echo", "two"]])

    IrisSubmitJobOperator.partial(task_id="by_kwargs").expand_kwargs(
        [{"command": ["echo", "one"], "resource_config": {"tpu": "v5p-16"}}, {"command": ["echo", "two"]}]
    )

    @task
    def commands():
        return [["echo", "one"]]

    IrisSubmitJobOperator.partial(task_id="by_result").expand(command=commands())
    IrisSubmitJobOperator.partial(task_id="by_kwargs_result").expand_kwargs(commands())

    @task.iris(resource_config={"gpu": "H100", "gpu_count": 8})
    def function(rate):
        return rate

    function.expand(rate=[0.1, 0.2])

    @task
    def local(): ...

    local()
"""


@pytest.fixture(scope="module")
def dag_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dags")
    (folder / "shown.py").write_text(DAG)
    (folder / "train.py").write_text("print(1)\n")
    return folder / "shown.py"


def explained(command, *words):
    ended = command("explain", "--json", *words)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def request_of(answer):
    """Raises ParseError for what is not a request as text."""
    return text_format.Parse(answer["request"], Controller.LaunchJobRequest())


def test_the_request_is_the_one_that_is_submitted(command, iris, client):
    """Field for field what the controller got, but for the token."""
    words = ["--tpu", "v5p-16", "--region", "local", "--command", "python -c 'print(1)'", "--name", "same"]
    shown = request_of(explained(command, *words))
    client.submit(
        JobRequest(
            name="same",
            entrypoint=Entrypoint.from_binary("python", ["-c", "print(1)"]),
            resources=ResourceConfig.with_tpu("v5p-16", regions=["local"]),
        )
    )
    sent = client.job_request("/airflow/same")
    assert sent.environment.env_vars.pop("FRAY_AIRFLOW_LAUNCH") != shown.environment.env_vars.pop("FRAY_AIRFLOW_LAUNCH")
    for name in ("name", "resources", "coscheduling", "replicas", "max_retries_preemption", "entrypoint"):
        assert getattr(sent, name) == getattr(shown, name), name
    assert sent.environment.env_vars == shown.environment.env_vars
    assert shown.constraints[0] in sent.constraints


@pytest.mark.parametrize(
    ("words", "topology", "replicas", "chips", "gang"),
    [
        ("--tpu v5p-64 --slices 2", ("tpu", "v5p-64", 2, 8, 4), 16, 64, "tpu-name"),
        ("--tpu V5E-16,v6e-16", ("tpu", "v5litepod-16", 1, 4, 4), 4, 16, "tpu-name"),
        ("--tpu v5p-8 --slices 3", ("tpu", "v5p-8", 3, 1, 4), 3, 12, ""),
        ("--gpu H100 --count 8 --replicas 2", ("gpu", "H100", 0, 0, 8), 2, 16, "leafgroup"),
        ("--cpu 4 --ram 16g", ("cpu", "cpu", 0, 0, 0), 1, 0, ""),
    ],
)
def test_the_shape_follows_the_spec(command, words, topology, replicas, chips, gang):
    answer = explained(command, *words.split())
    assert tuple(answer["topology"].values()) == topology
    assert (answer["replicas"], answer["chips"], answer["coscheduling"]) == (replicas, chips, gang)
    assert request_of(answer).replicas == replicas


@pytest.mark.parametrize(
    ("words", "sources"),
    [
        ("--tpu v5p-16", ["the default: 50% of the VM's 208", "the default: 50% of the VM's 448", "the default"]),
        ("--tpu v5p-16 --cpu 8 --ram 9g", ["as given, of the VM's 208", "as given, of the VM's 448", "the default"]),
        ("--gpu H100", ["raised from 1: a replica with an accelerator gets at least 4", "the default", "the default"]),
        ("--cpu 4 --ram 16g --disk 1t", ["as given", "as given", "as given"]),
    ],
)
def test_each_share_of_the_host_says_where_it_comes_from(command, words, sources):
    assert [share["source"] for share in explained(command, *words.split())["host"]] == sources


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tpu v5p-16", "The 2 replicas start together on the 2 VMs of one v5p-16 slice."),
        ("--tpu v5p-16 --slices 2", "Today's Iris accepts this and never places it."),
        ("--tpu v5p-16 --slices 2", "one slice of v5p-32, which has 4 VMs, or slices of one VM (v5p-8)"),
        ("--tpu v5p-16 --replicas 3", "Iris refuses the job when it is submitted: 3 replicas do not fill slices of 2"),
        ("--tpu v5p-16 --replicas 1", "give 2 replicas, as with_tpu does"),
        ("--tpu v5p-8 --slices 2", "They are no gang"),
        ("--tpu v5p-16,v4-16", "Any of v5p-16, v4-16 will do."),
        ("--gpu H100 --replicas 2", "set gpu_gang_level, of the task or of the connection"),
        ("--gpu auto --count 2", "a host with 2 free GPUs of any kind"),
        ("--cpu 1 --replicas 3", "Each of the 3 replicas goes, by itself, to any machine that has room"),
        ("--on-demand", "Only machines that are not preemptible will do."),
        ("--max-retries-failure 2 --replicas 3", "the job outlives 6 failed attempts in all"),
        ("--max-retries-preemption 7", "starts again, up to 7 times"),
        ("--max-retries-preemption 0", "The first replica that loses its machine ends the job."),
    ],
)
def test_what_iris_will_do_is_said_in_words(command, words, said):
    assert said in " ".join(explained(command, *words.split())["outlook"])


@pytest.mark.parametrize(
    ("words", "constraints"),
    [
        ("--region a --region B", ["region is one of a, b"]),
        ("--region a --zone a-b --on-demand", ["preemptible is false", "region is a", "zone is a-b"]),
        ("--region *", []),
        ("--tpu v5p-16,v4-16", ["device-variant is one of v5p-16, v4-16"]),
    ],
)
def test_constraints_are_those_of_the_request(command, words, constraints):
    answer = explained(command, *words.split())
    assert answer["constraints"] == constraints
    assert len(request_of(answer).constraints) == len(constraints)


def test_no_secret_is_shown_whatever_holds_it():
    from fray_airflow import create_environment

    environment = create_environment(
        secrets={"HF_TOKEN": "hush-hush"},
        env_vars={"HF_TOKEN": "hush-hush", "HEADER": "Bearer hush-hush", "API_KEY": "hash-hash", "KEYBOARD": "qwerty"},
    )
    job = JobRequest(name="j", entrypoint=Entrypoint.from_binary("true"), environment=environment)
    explanation = explain(job)
    text = f"{explanation} {json.dumps(explanation.to_json())} {explanation!r}"
    assert "hush" not in text
    assert "hash-hash" not in text
    assert "KEYBOARD=qwerty" in text
    assert explanation.secrets == ("HF_TOKEN",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--tpu v5p-17", "did you mean 'v5p-16'?"),
        ("--slices 2", "'slice_count' is given without its device"),
        ("--tpu v5p-8 --gpu H100", "'tpu' and 'gpu' are both given"),
        ("--ram 16", 'did you mean "16g"?'),
        ("--cpu many", "cpu='many' is not a number"),
        ("--container-profile x", "choose from restricted, default"),
        ("--env NAME", "write NAME=VALUE"),
        ("--command 'open", "No closing quotation"),
        ("--name a/b", "may not hold"),
        ("--max-retries-failure -1", "whole number from 0 on"),
        ("nowhere.py train", "nowhere.py is not a file"),
    ],
)
def test_a_spec_that_cannot_be_right_is_misuse(command, words, said):
    ended = command("explain", *words.split(" "))
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_task_of_a_dag_file_is_explained_as_it_would_be_submitted(command, dag_file):
    """Its files are read beside the DAG file; its secrets are named and never looked up."""
    answer = explained(command, dag_file, "plain")
    assert (answer["replicas"], answer["constraints"]) == (2, ["preemptible is false"])
    assert answer["code"] == ["train.py as train.py, 9 bytes"]
    assert answer["secrets"] == ["EXTRA", "HF_TOKEN"]
    assert answer["unrendered"] == {}
    request = request_of(answer)
    assert (request.max_retries_failure, request.max_task_failures) == (2, 4)
    assert request.timeout.milliseconds == 3_600_000
    assert set(request.environment.secrets.values()) == {request.environment.env_vars["EXTRA"]} == {"<hidden>"}
    assert request.entrypoint.workdir_files["train.py"] == b"<9 bytes>"


def test_templates_are_shown_as_they_stand_and_left_out_where_they_decide(command, dag_file):
    answer = explained(command, dag_file, "templated")
    assert answer["unrendered"] == {
        "resource_config.tpu": "{{ params.tpu }}",
        "resource_config.regions[0]": "{{ params.r }}",
        "command": "python train.py --date {{ ds }}",
        "environment.env_vars.STORE": "{{ run_id }}",
        "job_name": "job-{{ ds_nodash }}",
        "max_retries_failure": "{{ params.retries }}",
    }
    assert (answer["topology"]["kind"], answer["constraints"]) == ("cpu", [])
    assert answer["environment"]["STORE"] == "{{ run_id }}"
    assert [share["amount"] for share in answer["host"]][1] == 8 * 1024**3


def test_of_a_mapped_task_the_first_instance_is_explained(command, dag_file):
    answer = explained(command, dag_file, "mapped")
    assert (answer["runs"], answer["unrendered"]) == (
        "echo one",
        {"the task": "mapped over command; its first instance is shown"},
    )


def test_a_task_mapped_by_keyword_arguments_is_explained_with_its_first_ones(command, dag_file):
    answer = explained(command, dag_file, "by_kwargs")
    assert (answer["runs"], answer["replicas"]) == ("echo one", 2)
    assert answer["unrendered"] == {"the task": "mapped over command, resource_config; its first instance is shown"}


def test_what_another_task_returns_stands_as_its_template(command, dag_file):
    answer = explained(command, dag_file, "by_result")
    assert "xcom_pull" in answer["unrendered"]["command"]


def test_a_decorated_function_is_explained_with_its_name(command, dag_file):
    answer = explained(command, dag_file, "function")
    assert answer["runs"] == "the function function, pickled by value"
    assert (answer["topology"]["variant"], answer["chips"]) == ("H100", 8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "choose from by_kwargs, by_kwargs_result, by_result, commands, commands__1, function, local"),
        (["local"], "'local' is a"),
        (["by_kwargs_result"], "mapped over what a run finds out"),
        ([], "Give its task id too"),
        (["plain", "--tpu", "v5p-8", "--slices", "2"], "--tpu, --slices: the task says it itself"),
        (["plain", "--dag", "other"], "holds no DAG 'other'; choose from shown"),
    ],
)
def test_a_task_that_cannot_be_explained_is_misuse(command, dag_file, words, said):
    ended = command("explain", dag_file, *words)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_a_file_that_cannot_be_imported_shows_airflows_error(command, tmp_path):
    (tmp_path / "broken.py").write_text("from airflow.sdk import DAG\nraise RuntimeError('no variables here')\n")
    ended = command("explain", tmp_path / "broken.py", "train")
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be imported" in ended.err
    assert "no variables here" in ended.err


def test_with_an_iris_the_job_is_explained_as_its_user_would_submit_it(command, iris, monkeypatch):
    """The connection's level of GPU gangs counts, and the user is whom the controller takes us for."""
    connection = {"conn_type": "iris", "host": iris.target, "login": "me", "extra": {"gpu_gang_level": "rack"}}
    monkeypatch.setenv("AIRFLOW_CONN_IRIS_GPU", json.dumps(connection))
    answer = explained(command, "--gpu", "H100", "--replicas", "2", "--conn", "iris_gpu")
    assert (answer["job_id"], answer["coscheduling"]) == ("/me/job", "rack")
    own = explained(command, "--gpu", "H100", "--replicas", "2", "--conn", "iris_gpu", "--gpu-gang-level", "pod")
    assert own["coscheduling"] == "pod"


def test_a_level_that_no_worker_has_is_seen_before_anything_is_submitted(command):
    """Under the levels that workers do have, the gang fits."""
    words = ("--gpu", "H100", "--replicas", "2")
    assert explained(command, *words)["coscheduling"] == "leafgroup"
    with LocalIris(Fleet.of(gpu={"H100": 2}), run="script") as idle:
        fit = explained(command, *words, "--target", idle.target)["fit"]
        assert fit["answer"] == "no"
        assert "No worker that would do has the attribute 'leafgroup'" in fit["text"]
        assert "zone (up to 2 hosts): set gpu_gang_level" in fit["text"]
        fit = explained(command, *words, "--target", idle.target, "--gpu-gang-level", "zone")["fit"]
        assert fit["answer"] == "yes"


def test_a_level_that_cannot_be_one_is_misuse(command):
    ended = command("explain", "--gpu", "H100", "--gpu-gang-level", "two words")
    assert (ended.code, ended.out) == (2, "")
    assert "gpu_gang_level='two words' is no name of a worker attribute" in ended.err


@pytest.mark.parametrize(
    ("words", "answer", "text"),
    [
        ("--tpu v5p-16", "yes", "v5p-16 slices free"),
        ("--cpu 1 --ram 1g", "yes", "places for 1 core and 1g free"),
        ("--cpu 64 --ram 1g --replicas 90", "no", "of 90 places"),
        ("--tpu v5p-16 --slices 2", "never as one job", "for one job per slice"),
        ("--tpu v5p-16 --replicas 3", "unknown", "do not fill slices of 2 VMs"),
        ("--gpu H100", "never", "no scaling group of this cluster has machines"),
    ],
)
def test_with_an_iris_it_is_said_whether_the_job_fits_now(command, words, answer, text):
    """On a cluster of its own, where nothing runs."""
    with LocalIris(Fleet.of(cpu=2, tpu={"v5p-16": 2}), run="script") as idle:
        fit = explained(command, *words.split(), "--target", idle.target)["fit"]
        assert (fit["answer"], text in fit["text"]) == (answer, True), fit
        assert f"  - {answer}: " in command("explain", *words.split(), "--target", idle.target).out


def test_without_an_iris_nothing_is_said_of_it(command):
    assert explained(command, "--cpu", "1")["fit"] is None
    assert "fits now" not in command("explain", "--cpu", "1").out


def test_a_dry_run_prints_the_explanation_and_asks_nobody(command, dag_file, capsys):
    """No connection exists here, and no secret: whoever looked one up would fail."""
    (dag,) = load_dags(dag_file).values()
    for task_id in ("plain", "templated"):
        shown = command("explain", dag_file, task_id).out
        dag.get_task(task_id).dry_run()
        assert capsys.readouterr().out == shown


def test_a_dry_run_of_a_faulty_spec_raises_what_the_task_would(dag_file):
    from airflow.sdk.exceptions import AirflowFailException

    (dag,) = load_dags(dag_file).values()
    task = dag.get_task("templated")
    task.resource_config = {"tpu": "v5p-17"}
    with pytest.raises(AirflowFailException, match="did you mean 'v5p-16'"):
        task.dry_run()


def test_no_line_of_the_facts_is_wider_than_a_page(command):
    """Unless a word is."""
    facts = command("explain", *["--tpu", "v5p-64", "--slices", "2", "--gpu"][:4]).out.partition("\nRequest\n")[0]
    assert max(map(len, facts.splitlines())) <= 100
    assert textwrap.dedent(facts) == facts
