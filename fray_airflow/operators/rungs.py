"""The rungs of a launch: for each choice of machines the job that is submitted, once or for each of its slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fray_airflow.devices import CpuConfig, TpuConfig
from fray_airflow.errors import InvalidSpecError
from fray_airflow.identity import name_at
from fray_airflow.job import JobRequest, Rendezvous
from fray_airflow.operators.per_rung import Render, RungFacts, on_rung
from fray_airflow.operators.spec import BUDGETS, build_job
from fray_airflow.plain import resource_config_from
from fray_airflow.resources import ResourceConfig
from fray_airflow.rung import Rung
from fray_airflow.units import parse_duration

if TYPE_CHECKING:
    from fray_airflow.lifecycle import Submit
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

SLICE_STRATEGIES = ("single_job", "job_per_slice")

RUNG_ENV = "FRAY_AIRFLOW_RUNG"
SLICE_INDEX_ENV = "FRAY_AIRFLOW_SLICE_INDEX"
SLICE_COUNT_ENV = "FRAY_AIRFLOW_SLICE_COUNT"
SLICE_JOBS_ENV = "FRAY_AIRFLOW_SLICE_JOBS"

START_SECONDS = 1800.0
"""How much later than others a slice may start that was placed in time: images and environments take their time."""


@dataclass(frozen=True, slots=True)
class RungJob:
    """job: what is submitted, for each slice where there are several. rung: what the machine has to know of it.

    gpu_gang_level: the author's; None leaves it to the connection.
    """

    job: JobRequest
    rung: Rung
    gpu_gang_level: str | None = None

    def request(self, action: Submit) -> JobRequest:
        """The job under its name."""
        return replace(self.job, name=action.job.job_id.split("/")[2])

    def marks(self, action: Submit) -> dict[str, str]:
        """Variables that tell a job, and a driver that finds it, which launch and which slice it is."""
        from fray_airflow.lifecycle import ROUND_ENV

        marks = {RUNG_ENV: str(action.round.rung), ROUND_ENV: action.round.to_text()}
        if self.rung.slices == 1 or action.slice is None:
            return marks
        first = action.job.job_id.removesuffix(name_at("", slice=action.slice))
        jobs = [name_at(first, slice=number) for number in range(self.rung.slices)]
        return {
            **marks,
            SLICE_INDEX_ENV: str(action.slice),
            SLICE_COUNT_ENV: str(self.rung.slices),
            SLICE_JOBS_ENV: ",".join(jobs),
        }


def rendezvous_seconds(operator: IrisSubmitJobOperator) -> float | None:
    """How long the tasks of a slice wait for those of the others; None if they do not.

    Longer than the launch itself keeps slices for others, which ends them without a failure.
    """
    if not operator.slice_rendezvous:
        return None
    return parse_duration(operator.hold_timeout).total_seconds() + START_SECONDS


def rung_job(job: JobRequest, slice_strategy: str | None, rendezvous_seconds: float | None = None) -> RungJob:
    """Raises InvalidSpecError for slices that Iris would never place as one job, unless the strategy says how.

    With `rendezvous_seconds` the slices' jobs find each other before they begin.
    """
    resources, slices = job.resources, job.resources.slice_count()
    chips = resources.device.chip_count()
    rung = Rung(job.replica_count, chips, 1, describe(resources), RungFacts(0, resources).device)
    if slices == 1 or slice_strategy == "single_job" or (slice_strategy is None and _single_vm(resources)):
        return RungJob(job, rung)
    if slice_strategy is None:
        raise InvalidSpecError(
            "resource_config",
            [
                f"{describe(resources)}: a job is one gang, and Iris places a gang within one slice, so that this one "
                'would wait for ever. Set slice_strategy="job_per_slice" for a job on each slice, launched and watched '
                'as one, or "single_job" to submit it as it is'
            ],
        )
    # Iris would start a slice again alone, while the others wait for it in vain: the launch restarts as a whole.
    tasks = resources.replicas // slices
    meeting = None if rendezvous_seconds is None else Rendezvous(tasks, rendezvous_seconds)
    part = replace(
        job,
        entrypoint=replace(job.entrypoint, rendezvous=meeting),
        resources=replace(resources, replicas=tasks),
        replicas=None,
        max_retries_failure=0,
        max_retries_preemption=0,
        max_task_failures=0,
    )
    return RungJob(part, replace(rung, slices=slices))


def _single_vm(resources: ResourceConfig) -> bool:
    """Slices of one VM need no gang: Iris places the replicas of one job on as many of them."""
    return isinstance(resources.device, TpuConfig) and resources.device.vm_count() == 1


def build_rungs(operator: IrisSubmitJobOperator, render: Render, secrets: Mapping[str, str]) -> list[RungJob]:
    """What is submitted for each choice of machines. Raises InvalidSpecError.

    `render` is for what had to wait until the rung is known.
    """
    rungs = []
    for number, choice in enumerate([operator.resource_config, *fallbacks(operator)]):
        facts = RungFacts(number, _resources(choice, number))
        job = build_job(
            resource_config=facts.resources,
            command=on_rung(operator.command, facts, render),
            environment=on_rung(operator.environment, facts, render),
            entrypoint=operator._entrypoint,
            result=operator._asked_result(),
            secrets=secrets,
            secrets_as_env=operator.secrets_as_env,
            name=operator.job_name,
            budgets={name: getattr(operator, argument) for argument, name in BUDGETS.items()},
        )
        part = rung_job(job, operator.slice_strategy, rendezvous_seconds(operator))
        rungs.append(replace(part, gpu_gang_level=operator.gpu_gang_level))
    _check_ladder(operator, rungs)
    return rungs


def fallbacks(operator: IrisSubmitJobOperator) -> list[Any]:
    """The choices after the first, as they were given. Raises InvalidSpecError."""
    given = operator.fallback_resource_configs
    if given is None:
        return []
    if not isinstance(given, list | tuple):
        what = f"fallback_resource_configs={given!r} is no list; write [...] around a single choice"
        raise InvalidSpecError("IrisSubmitJobOperator", [what])
    if not given:
        what = f"fallback_resource_configs={given!r} holds no choice; leave it out where there is none"
        raise InvalidSpecError("IrisSubmitJobOperator", [what])
    return list(given)


def _resources(value: Any, number: int) -> ResourceConfig:
    """The machines of one rung. Raises InvalidSpecError that names which of the arguments is faulty."""
    subject = f"fallback_resource_configs[{number - 1}]" if number else "resource_config"
    if number and value in (None, ""):
        raise InvalidSpecError(
            "IrisSubmitJobOperator", [f"{subject}={value!r} names no machines; give a ResourceConfig, or a dict of one"]
        )
    try:
        return resource_config_from(value or {})
    except InvalidSpecError as error:
        prefix = "" if error.subject == subject else f"{subject}: "
        raise InvalidSpecError("IrisSubmitJobOperator", [f"{prefix}{fault}" for fault in error.faults]) from error


def _check_ladder(operator: IrisSubmitJobOperator, rungs: Sequence[RungJob]) -> None:
    """Whether several launches of one try can be told apart, and watched. Raises InvalidSpecError."""
    if len(rungs) == 1 and rungs[0].rung.slices == 1:
        return
    what = "fallback_resource_configs" if len(rungs) > 1 else 'slice_strategy="job_per_slice"'
    faults = _repeated(rungs)
    if operator.job_name:
        faults.append(f"{what} needs names of its own for its jobs; leave out job_name={operator.job_name!r}")
    if not operator.wait_for_completion:
        faults.append(f"{what} has to watch its jobs; leave out wait_for_completion=False")
    if len(rungs) > 1 and operator.placement_timeout is None:
        faults.append("fallback_resource_configs needs placement_timeout: how long each choice may wait for machines")
    if faults:
        raise InvalidSpecError("IrisSubmitJobOperator", faults)


def _repeated(rungs: Sequence[RungJob]) -> list[str]:
    """The same machines twice would only wait twice."""
    machines = [(each.job.resources, each.rung) for each in rungs]
    return [
        f"fallback_resource_configs[{number - 1}] ({rungs[number].rung.name}) is the same as "
        + ("resource_config" if (first := machines.index(each)) == 0 else f"fallback_resource_configs[{first - 1}]")
        for number, each in enumerate(machines)
        if each in machines[:number]
    ]


def describe(resources: ResourceConfig) -> str:
    """A few words for a log.

    >>> describe(ResourceConfig.with_tpu("v5p-16", slice_count=2))
    '2 slices of v5p-16'
    """
    device, slices = resources.device, resources.slice_count()
    if isinstance(device, TpuConfig):
        words = device.variant if slices == 1 else f"{slices} slices of {device.variant}"
    elif isinstance(device, CpuConfig):
        words = f"{resources.replicas} x {resources.cpu:g} cores"
    else:
        words = f"{resources.replicas} x {device.count} {device.variant}"
    where = [each for each in (resources.zone, *(resources.regions or ()), resources.target_cluster) if each]
    return words + ("" if resources.preemptible else ", on demand") + (f" in {', '.join(where)}" if where else "")
