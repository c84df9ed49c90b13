"""The job of a task, explained from its arguments. Templates that nobody has rendered stay as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fray_airflow.errors import InvalidSpecError
from fray_airflow.operators.rungs import describe, fallbacks, rendezvous_seconds, rung_job
from fray_airflow.operators.spec import BUDGETS, build_job, is_final
from fray_airflow.plain import resource_config_from

if TYPE_CHECKING:
    from fray_airflow.iris.explanation import Explanation
    from fray_airflow.job import EnvironmentConfig, JobRequest
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

_BUILDER_KEYS = ("tpu", "slice_count", "gpu", "gpu_count")


def job_of(operator: IrisSubmitJobOperator) -> JobRequest:
    """The job of this task as far as it is known: no connection and no secret is looked up.

    A template that stands where a number or a device is needed is left out, and the default taken instead.
    Raises InvalidSpecError.
    """
    from fray_airflow.iris.explain import HIDDEN

    budgets = {name: getattr(operator, argument) for argument, name in BUDGETS.items()}
    return build_job(
        resource_config=_known_resources(operator.resource_config),
        command=_as_texts(operator.command),
        entrypoint=operator._entrypoint,
        environment=_as_texts(operator.environment),
        result=operator._asked_result(),
        secrets=dict.fromkeys((*operator.secrets, *operator._secrets), HIDDEN),
        secrets_as_env=operator.secrets_as_env,
        name=operator.job_name if is_final(operator.job_name) else None,
        budgets={name: value for name, value in budgets.items() if is_final(value)},
    )


def explain_operator(
    operator: IrisSubmitJobOperator, *, user: str = "airflow", gpu_gang_level: str | None = None
) -> Explanation:
    """What the job of this task would be, of a launch of slices the job of each. Of what it ships the files are read.

    Raises InvalidSpecError.
    """
    from fray_airflow.iris.explain import explain
    from fray_airflow.iris.launch import read_code

    whole = job_of(operator)
    part = rung_job(whole, operator.slice_strategy or "single_job", rendezvous_seconds(operator))
    job = part.job
    bundle, files = read_code(job.environment, _folder(operator)) if _is_readable(job.environment) else (None, {})
    return explain(
        job,
        user=user,
        gpu_gang_level=known_gang_level(operator) or gpu_gang_level,
        bundle=bundle,
        files=files,
        unrendered=dict(_templates(operator)),
        launches=tuple(_launches(operator, whole, part.rung.slices)),
    )


def known_gang_level(operator: IrisSubmitJobOperator) -> str | None:
    """The task's own, as far as no template hides it."""
    level = operator.gpu_gang_level
    return level if is_final(level) else None


def _launches(operator: IrisSubmitJobOperator, job: JobRequest, slices: int) -> Iterator[str]:
    """What comes beside the job that is explained."""
    if slices > 1:
        yield f"This is the job of one of {describe(job.resources)}: {slices} of it are launched and treated as one."
        yield (
            "When one of them fails or loses its machines, all are ended and launched again: after failures up to "
            f"{job.max_retries_failure} times, after losses up to {job.max_retries_preemption} times."
        )
    given = operator.fallback_resource_configs
    for number, choice in enumerate(fallbacks(operator) if isinstance(given, list | tuple) else (), start=1):
        known = _known_resources(choice)
        name = describe(resource_config_from(known)) if known else "machines that a template names"
        yield f"When it is not placed in placement_timeout, choice {number} follows: {name}."


def print_explanation(operator: IrisSubmitJobOperator) -> None:
    sys.stdout.write(f"{explain_operator(operator)}\n")


def first_instance(task: Any) -> tuple[IrisSubmitJobOperator, str]:
    """The operator of a task, of a mapped one with its first arguments; and over what it is mapped, "" if it is not.

    Raises InvalidSpecError for a task of another kind.
    """
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

    if isinstance(task, IrisSubmitJobOperator):
        return task, ""
    kind = getattr(task, "operator_class", type(task))
    if not (isinstance(kind, type) and issubclass(kind, IrisSubmitJobOperator)):
        raise InvalidSpecError("task", [f"{task.task_id!r} is a {task.task_type} and submits no job to Iris"])
    given = task._get_specified_expand_input().value
    if isinstance(given, list | tuple) and given:
        # Of expand_kwargs. Airflow takes a mapping for each instance, or something that a run makes one of.
        given = {name: [value] for name, value in given[0].items()} if isinstance(given[0], Mapping) else given
    if not isinstance(given, Mapping):
        raise InvalidSpecError(
            "task", [f"{task.task_id!r} is mapped over what a run finds out; its jobs are not known"]
        )
    first = {name: _first(value) for name, value in given.items()}
    # What @task maps are arguments of the function, not of the operator.
    decorated = hasattr(task, "op_kwargs_expand_input")
    return task.unmap({"op_kwargs": first} if decorated else first), ", ".join(given)


def _first(value: Any) -> Any:
    return next(iter(value), None) if isinstance(value, list | tuple | Mapping) else value


def _templates(operator: IrisSubmitJobOperator) -> Iterator[tuple[str, str]]:
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

    for name in IrisSubmitJobOperator.template_fields:
        yield from _unfinal(name, getattr(operator, name))


def _unfinal(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _unfinal(f"{path}.{key}", each)
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _unfinal(f"{path}[{index}]", each)
    elif not is_final(value):
        yield path, _as_texts(value)


def _known_resources(value: Any) -> Any:
    """Without what has to be rendered first. A device that is not known takes its count with it."""
    if not isinstance(value, Mapping):
        return value if is_final(value) else {}
    known = {name: each for name, each in value.items() if is_final(each)}
    if any(name in value and name not in known for name in ("tpu", "gpu")):
        known = {name: each for name, each in known.items() if name not in _BUILDER_KEYS}
    return known


def _as_texts(value: Any) -> Any:
    """With the text of a reference or a callable in its place."""
    if isinstance(value, Mapping):
        return {name: _as_texts(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_texts(each) for each in value]
    if callable(value) and not hasattr(value, "resolve"):
        return f"<{getattr(value, '__name__', type(value).__name__)}(context, jinja_env)>"
    return value if is_final(value) else str(value)


def _is_readable(environment: EnvironmentConfig | None) -> bool:
    return environment is not None and is_final([environment.workspace, *environment.files.values()])


def _folder(operator: IrisSubmitJobOperator) -> Path:
    dag = operator.get_dag()
    return Path(dag.fileloc).parent if dag is not None else Path.cwd()
