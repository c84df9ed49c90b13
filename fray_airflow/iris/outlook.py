"""What Iris will do with a job, in words.

As marin-iris 0.2.227.dev40316220070 behaves; tests/contract has the cases of placement, gangs and budgets.
"""

from __future__ import annotations

from collections.abc import Iterator

from fray_airflow.devices import GpuConfig, TpuConfig
from fray_airflow.job import JobRequest
from fray_airflow.tpu import TPU_TOPOLOGIES, tpu_family


def outlook(job: JobRequest, gang: str) -> tuple[str, ...]:
    """`gang` is what the replicas must share, "" where each stands alone."""
    device = job.resources.device
    if isinstance(device, TpuConfig):
        placement = _tpu(device, job.replica_count)
    elif isinstance(device, GpuConfig):
        placement = _gpu(device, job.replica_count, gang)
    else:
        placement = _cpu(job.replica_count)
    return (*placement, *_machines(job), *_budgets(job, gang))


def _cpu(replicas: int) -> Iterator[str]:
    subject = "The replica goes" if replicas == 1 else f"Each of the {replicas} replicas goes, by itself,"
    yield f"{subject} to any machine that has room; hosts with accelerators count too."


def _gpu(device: GpuConfig, replicas: int, gang: str) -> Iterator[str]:
    kind = "GPUs of any kind" if device.variant.lower() == "auto" else device.variant
    host = f"a host with {device.count} free {kind}"
    if replicas == 1:
        yield f"The replica goes to {host}."
        return
    yield f"The {replicas} replicas start together, each on {host}, where all these hosts share one value of {gang!r}."
    yield (
        f"{gang!r} is a level of the cluster's network. Where no worker has an attribute of that name, Iris takes the "
        "job and never places it: set gpu_gang_level, of the task or of the connection, to one that your workers have."
    )


def _tpu(device: TpuConfig, replicas: int) -> Iterator[str]:
    variant, vms = device.variant, device.vm_count()
    if vms == 1:
        which = "The replica gets" if replicas == 1 else f"Each of the {replicas} replicas gets, by itself,"
        yield f"{which} the one VM of a {variant} slice."
        if replicas > 1:
            yield "They are no gang: some may run while others still wait."
    elif replicas == 1:
        yield (
            f"Iris places the one replica on one of the {vms} VMs of a {variant} slice, where a program that expects "
            f"the whole slice waits for the others: give {vms} replicas, as with_tpu does."
        )
    elif replicas == vms:
        yield f"The {replicas} replicas start together on the {vms} VMs of one {variant} slice."
        yield "Replica 0 gets the slice's first VM, replica 1 its second, and so on."
    elif replicas % vms:
        yield (
            f"Iris refuses the job when it is submitted: {replicas} replicas do not fill slices of {vms} VMs. "
            f"Give a multiple of {vms}."
        )
    else:
        yield from _several_slices(variant, vms, replicas)


def _several_slices(variant: str, vms: int, replicas: int) -> Iterator[str]:
    yield (
        f"Today's Iris accepts this and never places it. A job whose slices have several VMs each must fit on one: "
        f"its {replicas} replicas would have to share a {variant} slice, which has {vms} VMs."
    )
    family = tpu_family(variant)
    larger = [
        row.name for row in TPU_TOPOLOGIES.values() if tpu_family(row.name) == family and row.vm_count == replicas
    ]
    single = [row.name for row in TPU_TOPOLOGIES.values() if tpu_family(row.name) == family and row.vm_count == 1]
    instead = [f"one job per slice of {variant}"]
    instead += [f"one slice of {name}, which has {replicas} VMs" for name in larger]
    instead += [f"slices of one VM ({single[-1]})"] if single else []
    yield f"Instead: {', or '.join(instead)}. A placement_timeout ends the waiting."


def _machines(job: JobRequest) -> Iterator[str]:
    resources = job.resources
    if resources.device_alternatives:
        yield f"Any of {', '.join((resources.device.variant, *resources.device_alternatives))} will do."
    if resources.preemptible and not job.max_retries_preemption:
        yield "Machines that may be taken back will do. The first replica that loses its machine ends the job."
    elif resources.preemptible:
        yield (
            "Machines that may be taken back will do. A replica that loses its machine starts again, up to "
            f"{job.max_retries_preemption} times."
        )
    else:
        yield "Only machines that are not preemptible will do."


def _budgets(job: JobRequest, gang: str) -> Iterator[str]:
    if job.max_task_failures == 0:
        yield "The first program that fails ends the job."
    else:
        yield (
            f"A replica whose program fails starts again up to {job.max_retries_failure} times; the job outlives "
            f"{job.max_task_failures} failed attempts in all."
        )
    if gang and job.replica_count > 1 and _starts_again(job):
        yield "When one replica of the gang starts again, all do."
    if job.timeout_seconds is not None:
        yield f"An attempt that runs longer than {job.timeout_seconds:g} s is ended; Iris looks about once a minute."


def _starts_again(job: JobRequest) -> bool:
    return job.max_task_failures > 0 or (job.resources.preemptible and job.max_retries_preemption > 0)
