"""What an operator was given: whether it is final, and the job it makes."""

from __future__ import annotations

import pytest

from fray_airflow import Entrypoint, EnvironmentConfig, ResourceConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.operators.spec import build_job, is_final
from fray_airflow.states import PriorityBand


class Reference:
    """Like an XComArg."""

    def resolve(self, context):
        return 1


@pytest.mark.parametrize(
    "value",
    [None, 4, "text", "{ not a template }", {"cpu": 4, "regions": ["a", ("b",)]}, [], {}, True, {"{{ key }}": "v"}],
)
def test_plain_values_are_final(value):
    assert is_final(value)


@pytest.mark.parametrize(
    "value", ["{{ ds }}", "a{% if x %}", "{# note #}", Reference(), lambda context, env: 1, len, Reference]
)
def test_templates_references_and_callables_are_not_final_at_any_depth(value):
    for nested in (value, [value], {"a": value}, {"a": [1, ({"b": value},)]}, ("x", value)):
        assert not is_final(nested)


def build(**changes):
    arguments = {
        "resource_config": None,
        "command": ["true"],
        "entrypoint": None,
        "environment": None,
        "secrets": {},
        "budgets": {},
    }
    return build_job(**{**arguments, **changes})


def test_a_command_alone_is_a_job():
    job = build()
    assert job.entrypoint.command == ("true",)
    assert job.resources == ResourceConfig()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py --name 'two words'", ("python", "train.py", "--name", "two words")),
        (["python", 3, 0.5], ("python", "3", "0.5")),
        (("a", "b"), ("a", "b")),
    ],
)
def test_a_command_is_split_like_a_shell_would(command, words):
    assert build(command=command).entrypoint.command == words


def test_an_entrypoint_counts_instead_of_a_command():
    assert build(command=None, entrypoint=Entrypoint.from_callable(len)).entrypoint.function is len


def test_secrets_join_the_environment():
    job = build(environment={"env_vars": {"A": "1"}}, secrets={"KEY": "hush"})
    assert job.environment == EnvironmentConfig(env_vars={"A": "1"}, secrets={"KEY": "hush"})


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        ({}, 0),
        ({"max_retries_failure": 2}, 6),
        ({"max_retries_failure": "2"}, 6),
        ({"max_retries_failure": 2, "max_task_failures": None}, 6),
        ({"max_retries_failure": 2, "max_task_failures": 1}, 6),
        ({"max_retries_failure": 2, "max_task_failures": "8"}, 8),
    ],
)
def test_the_jobs_budget_lets_that_of_the_replicas_take_effect(budgets, expected):
    assert build(resource_config={"replicas": 3}, budgets=budgets).max_task_failures == expected


def test_rendered_texts_become_numbers_and_bands():
    job = build(
        resource_config={"gpu": "H100", "gpu_count": "4"},
        budgets={"processes_per_task": "2", "priority": "batch", "timeout": "90"},
    )
    assert (job.processes_per_task, job.priority, job.timeout_seconds) == (2, PriorityBand.BATCH, 90)


def test_one_error_names_the_faults_of_all_arguments():
    with pytest.raises(InvalidSpecError) as caught:
        build(
            resource_config={"cpu": -1, "ram": "16"},
            environment={"files": {"/etc/passwd": "x"}},
            command="echo 'open",
            budgets={"max_retries_failure": "-1", "priority": "urgent", "timeout": "soon"},
            name="a/b",
        )
    text = str(caught.value)
    assert text.startswith("IrisSubmitJobOperator: ")
    for word in ("cpu=-1", 'did you mean "16g"', "/etc/passwd", "command=", "max_retries_failure='-1'", "urgent"):
        assert word in text
    for word in ("'soon' is not a duration", "name='a/b'"):
        assert word in text
    assert len(caught.value.faults) == 8


@pytest.mark.parametrize("command", [None, "", [], 5])
def test_nothing_to_run_is_a_fault(command):
    with pytest.raises(InvalidSpecError, match="command"):
        build(command=command)


def test_a_fault_shows_no_secret():
    with pytest.raises(InvalidSpecError) as caught:
        build(resource_config={"cpu": 0}, environment={}, secrets={"KEY": "hush"})
    assert "hush" not in f"{caught.value} {caught.value!r}"
