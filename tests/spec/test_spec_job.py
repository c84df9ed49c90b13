"""JobRequest, Entrypoint, EnvironmentConfig: checked where they are made."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow import Entrypoint, EnvironmentConfig, JobRequest, ResourceConfig, create_environment
from fray_airflow.errors import InvalidSpecError
from fray_airflow.states import PriorityBand

ECHO = Entrypoint.from_binary("echo", ["hi"])
NOT_A_BUDGET = [-1, 1.0, "1", True, None, 2**31]
NOT_TEXTS = ["gpu", 5, [1], {"a"}, None]

BAD_JOBS = {
    "name": ["", " ", None, "a/b", "a b", "a\nb", "a\u2003b", 7],
    "entrypoint": [None, "echo", ["echo"]],
    "resources": [None, "v5p-8", {}],
    "environment": [{}, "image"],
    "replicas": [0, -1, 10_001, 1.0, "1", True],
    "processes_per_task": [0, -1, 1.0, True, None, 2],
    "max_retries_failure": NOT_A_BUDGET,
    "max_retries_preemption": NOT_A_BUDGET,
    "max_task_failures": NOT_A_BUDGET,
    "priority": ["high", 9, None, -1],
    "timeout": [0, -1, "1h", float("nan"), timedelta(0), True, 1e300],
    "ports": ["http", ["http", "http"], ["http", "HTTP"], [""], ["a b"], [1], 5, None, ["a=b"], [b"x"]],
}


def faults_of(make):
    with pytest.raises(InvalidSpecError) as caught:
        make()
    return caught.value.faults


def job(**fields):
    return JobRequest(**{"name": "train", "entrypoint": ECHO, **fields})


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, all_ in BAD_JOBS.items() for value in all_])
def test_a_wrong_value_is_refused_where_it_is_written_and_named(field, value):
    (fault,) = faults_of(lambda: job(**{field: value}))
    assert fault.startswith(field)


def test_one_message_lists_every_fault():
    bad = {field: values[0] for field, values in BAD_JOBS.items()}
    parts = ("entrypoint", "resources", "environment")
    assert len(faults_of(lambda: job(**{field: bad[field] for field in parts}))) == 3
    others = {field: value for field, value in bad.items() if field not in parts}
    assert len(faults_of(lambda: job(**others))) == len(others)


def test_defaults_are_those_of_fray():
    request = job()
    assert (request.max_retries_failure, request.max_retries_preemption, request.max_task_failures) == (0, 100, 0)
    assert (request.replicas, request.timeout_seconds, request.priority_band) == (1, None, PriorityBand.INHERIT)


def test_replicas_come_from_the_resources_unless_given():
    resources = ResourceConfig.with_tpu("v5p-32")
    assert job(resources=resources).replica_count == 4
    assert job(resources=resources, replicas=8).replica_count == 8


@pytest.mark.parametrize("processes", [1, 2, 4, 8])
def test_processes_that_divide_the_gpus_are_taken(processes):
    assert job(resources=ResourceConfig.with_gpu("H100", 8), processes_per_task=processes)


def test_processes_need_gpus_that_they_divide():
    gpu, tpu = ResourceConfig.with_gpu("H100", 8), ResourceConfig.with_tpu("v5p-8")
    assert "does not divide the GPU count 8" in faults_of(lambda: job(resources=gpu, processes_per_task=3))[0]
    assert "needs a GPU device; this job's is tpu" in faults_of(lambda: job(resources=tpu, processes_per_task=2))[0]


@pytest.mark.parametrize("timeout", [90, 90.0, "90", timedelta(seconds=90)])
def test_a_timeout_is_seconds_or_a_timedelta(timeout):
    assert job(timeout=timeout).timeout_seconds == 90


@given(st.sampled_from(list(PriorityBand)))
def test_a_priority_is_a_band_its_name_or_its_number(band):
    assert job(priority=band.name.lower()).priority_band is job(priority=int(band)).priority_band is band


@pytest.mark.parametrize("ports", [["http"], ("a", "b"), ["grpc-x", "a.b", "8080"]])
def test_ports_are_names(ports):
    assert job(ports=ports).ports == tuple(ports)


def test_a_command_is_program_and_words():
    assert Entrypoint.from_binary("python", ["-m", "train"]).command == ("python", "-m", "train")
    assert Entrypoint(command=["ls", ""]).command == ("ls", "")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Entrypoint(),
        lambda: Entrypoint(command=("ls",), function=print),
        lambda: Entrypoint(command="ls"),
        lambda: Entrypoint(command=("ls", 1)),
        lambda: Entrypoint(command=("", "x")),
        lambda: Entrypoint(function="print"),
        lambda: Entrypoint.from_binary("python", "train.py"),
        lambda: Entrypoint.from_binary(" "),
        lambda: Entrypoint.from_callable(None),
        lambda: Entrypoint.from_callable(print, "abc"),
    ],
)
def test_what_runs_is_a_list_of_words_or_a_function_one_of_them(make):
    assert len(faults_of(make)) == 1


def test_a_function_takes_its_arguments_along():
    entrypoint = Entrypoint.from_callable(print, [1, 2], {"sep": "-"})
    assert (entrypoint.function, entrypoint.args, entrypoint.kwargs) == (print, (1, 2), {"sep": "-"})


@pytest.mark.parametrize("make", [EnvironmentConfig, create_environment])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("env_vars", {"A-B": "x"}),
        ("env_vars", {"": "x"}),
        ("env_vars", {"1A": "x"}),
        ("env_vars", {"A": 1}),
        ("env_vars", {"A\n": "x"}),
        ("secrets", {"a/b": "x"}),
        ("secrets", {"a": None}),
        ("files", {"": "x"}),
        ("files", {"/etc/passwd": "x"}),
        ("files", {"a/../../b": "x"}),
        ("extras", "gpu"),
        ("extras", [1]),
        ("pip_packages", "numpy"),
        ("setup_scripts", "echo"),
        ("setup_scripts", [None]),
    ],
)
def test_a_wrong_environment_is_refused(make, field, value):
    (fault,) = faults_of(lambda: make(**{field: value}))
    assert fault.startswith(field)


def test_the_value_of_a_secret_is_in_no_message_and_no_repr():
    environment = EnvironmentConfig(secrets={"HF_TOKEN": "hunter2"})
    assert "hunter2" not in repr(environment)
    assert "hunter2" not in str(faults_of(lambda: EnvironmentConfig(secrets={"HF TOKEN": "hunter2", "B": ["hunter2"]})))


def test_code_comes_from_a_workspace_or_an_image_not_both():
    assert "both given" in faults_of(lambda: EnvironmentConfig(workspace=".", docker_image="busybox"))[0]


def test_one_message_lists_every_fault_of_an_environment():
    faults = faults_of(
        lambda: EnvironmentConfig(
            workspace=".", docker_image="i", env_vars={"-": ""}, secrets={" ": ""}, extras="gpu", files={"": ""}
        )
    )
    assert [fault.split("=")[0].split(":")[0].split()[0] for fault in faults] == [
        "env_vars",
        "secrets",
        "files",
        "workspace",
        "extras",
    ]


def test_create_environment_adds_the_variables_that_fray_adds():
    environment = create_environment(".", env_vars={"TOKENIZERS_PARALLELISM": "true", "A": "1"}, extras=["gpu"])
    assert environment.env_vars == {"HF_DATASETS_TRUST_REMOTE_CODE": "1", "TOKENIZERS_PARALLELISM": "true", "A": "1"}
    assert (environment.workspace, environment.extras, environment.setup_scripts) == (".", ("gpu",), None)
    assert create_environment(setup_scripts=[]).setup_scripts == ()
