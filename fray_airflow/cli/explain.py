"""`fray-airflow explain`."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fray_airflow.cli.address import add_address, client_for, is_given
from fray_airflow.cli.command import add_command
from fray_airflow.cli.exits import CommandError, Exit
from fray_airflow.cli.fit import fit_of
from fray_airflow.cli.output import show, show_json
from fray_airflow.gangs import level_fault
from fray_airflow.job import DEFAULT_MAX_RETRIES_PREEMPTION, Entrypoint, EnvironmentConfig, JobRequest
from fray_airflow.resources import ANY_REGION

if TYPE_CHECKING:
    from fray_airflow.cli.command import Commands
    from fray_airflow.iris.explanation import Explanation

_FIELDS = {
    "slices": "slice_count",
    "gpu": "gpu",
    "count": "gpu_count",
    "cpu": "cpu",
    "ram": "ram",
    "disk": "disk",
    "replicas": "replicas",
    "preemptible": "preemptible",
    "region": "regions",
    "zone": "zone",
    "image": "image",
    "container_profile": "container_profile",
}
"""Options, and which argument of a ResourceConfig or its builders each is."""

_ONLY_SPEC = (
    "tpu",
    *_FIELDS,
    "gpu_gang_level",
    "command",
    "name",
    "env",
    "secret",
    "max_retries_failure",
    "max_retries_preemption",
)


def add(commands: Commands) -> None:
    parser = add_command(commands, "explain", run, "say what a job would ask of Iris, and what Iris would do with it")
    parser.add_argument("dag_file", nargs="?", type=Path, metavar="DAG_FILE", help="explain a task of this file")
    parser.add_argument("task", nargs="?", metavar="TASK", help="its task id")
    parser.add_argument("--dag", metavar="DAG_ID", help="where the file holds several DAGs with such a task")
    _add_spec(parser.add_argument_group("or explain this spec"))
    add_address(parser)


def _add_spec(spec: Any) -> None:
    spec.add_argument("--tpu", metavar="TYPE", help="v5p-16, say; further types after commas would do as well")
    spec.add_argument("--slices", metavar="N", help="of the TPU type (default: 1)")
    spec.add_argument("--gpu", metavar="MODEL", help="H100, say")
    spec.add_argument("--count", metavar="N", help="GPUs per replica (default: 1)")
    spec.add_argument("--gpu-gang-level", metavar="NAME", help="what the hosts of several replicas must share")
    spec.add_argument("--cpu", metavar="CORES", help="per replica")
    spec.add_argument("--ram", metavar="SIZE", help="per replica: 16g, say")
    spec.add_argument("--disk", metavar="SIZE", help="per replica")
    spec.add_argument("--replicas", metavar="N")
    kind = spec.add_mutually_exclusive_group()
    kind.add_argument("--preemptible", action="store_true", default=None, help="any machine will do (the default)")
    kind.add_argument("--on-demand", dest="preemptible", action="store_false", help="only ones that stay")
    spec.add_argument("--region", action="append", metavar="NAME", help=f"may be repeated; {ANY_REGION} for any")
    spec.add_argument("--zone", metavar="NAME")
    spec.add_argument("--image", metavar="IMAGE")
    spec.add_argument("--container-profile", metavar="NAME")
    spec.add_argument("--command", metavar="TEXT", help="what each replica runs, in one text (default: true)")
    spec.add_argument("--name", metavar="NAME", help="of the job")
    spec.add_argument("--env", action="append", metavar="NAME=VALUE", help="may be repeated")
    spec.add_argument("--secret", action="append", metavar="NAME", help="may be repeated; its value is never asked for")
    spec.add_argument("--max-retries-failure", metavar="N", help="(default: 0)")
    spec.add_argument("--max-retries-preemption", metavar="N", help=f"(default: {DEFAULT_MAX_RETRIES_PREEMPTION})")


def run(options: Namespace) -> int:
    explainer = _explainer(options)
    if not is_given(options):
        explained = explainer.explain()
    else:
        with client_for(options) as client:
            sender = {"user": client.user(), "gpu_gang_level": client.options.gpu_gang_level}
            fit = fit_of(explainer.job.resources, client, gpu_gang_level=explainer.gpu_gang_level)
            explained = replace(explainer.explain(**sender), fit=fit)
    if options.json:
        show_json(explained.to_json())
    else:
        show(explained)
    return Exit.DONE


@dataclass(frozen=True)
class _Explainer:
    """`explain` takes what an Iris or a connection adds: the user, and the level of GPU gangs.

    gpu_gang_level: the job's own, which goes before that.
    """

    job: JobRequest
    explain: Callable[..., Explanation]
    gpu_gang_level: str | None = None


def _explainer(options: Namespace) -> _Explainer:
    if options.dag_file is None:
        return _spec(options)
    if options.task is None:
        raise CommandError(f"which task of {options.dag_file}? Give its task id too")
    if given := [name for name in _ONLY_SPEC if getattr(options, name) is not None]:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise CommandError(f"{named}: the task says it itself; explain a task or a spec, not both")
    return _task(options)


def _spec(options: Namespace) -> _Explainer:
    from fray_airflow.iris.explain import HIDDEN, explain
    from fray_airflow.plain import resource_config_from

    given = {field: getattr(options, name) for name, field in _FIELDS.items() if getattr(options, name) is not None}
    if options.tpu is not None:
        names = [name for name in options.tpu.split(",") if name]
        given["tpu"] = names[0] if len(names) == 1 else names
    pairs = [pair.partition("=") for pair in options.env or ()]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise CommandError(f"--env {bad[0]}: write NAME=VALUE")
    environment = EnvironmentConfig(
        env_vars={name: value for name, _, value in pairs}, secrets=dict.fromkeys(options.secret or (), HIDDEN)
    )
    retries = _count(options, "max_retries_failure", 0)
    resources = resource_config_from(given)
    job = JobRequest(
        name=options.name or "job",
        entrypoint=Entrypoint(command=_words(options.command)),
        resources=resources,
        environment=environment,
        max_retries_failure=retries,
        # As the operator does: without it the first failure ends the job.
        max_task_failures=retries * resources.replicas,
        max_retries_preemption=_count(options, "max_retries_preemption", DEFAULT_MAX_RETRIES_PREEMPTION),
    )
    level = options.gpu_gang_level
    if fault := level_fault(level):
        raise CommandError(fault)

    def explain_spec(*, gpu_gang_level: str | None = None, **sender: Any) -> Explanation:
        return explain(job, gpu_gang_level=level or gpu_gang_level, **sender)

    return _Explainer(job, explain_spec, level)


def _task(options: Namespace) -> _Explainer:
    from fray_airflow.cli.dag_file import read_task

    task = read_task(options.dag_file, options.task, options.dag)
    # After the DAG file, which has loaded Airflow with its logs out of the way.
    from fray_airflow.operators.explain import explain_operator, first_instance, job_of, known_gang_level

    operator, mapped_over = first_instance(task)
    note = {"the task": f"mapped over {mapped_over}; its first instance is shown"} if mapped_over else {}

    def explain(**sender: Any) -> Explanation:
        explained = explain_operator(operator, **sender)
        return replace(explained, unrendered={**note, **explained.unrendered})

    return _Explainer(job_of(operator), explain, known_gang_level(operator))


def _words(command: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command or "true"))
    except ValueError as error:
        raise CommandError(f"--command {command!r}: {error}") from None


def _count(options: Namespace, name: str, default: int) -> int:
    text = getattr(options, name)
    if text is None:
        return default
    if not text.isdecimal():
        raise CommandError(f"--{name.replace('_', '-')} {text}: give a whole number from 0 on")
    return int(text)
