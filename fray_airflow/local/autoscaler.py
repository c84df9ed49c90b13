"""GetAutoscalerStatus of a fleet that never grows: what is up, what is in use, what is asked for in vain."""

from __future__ import annotations

from collections.abc import Iterable

from fray_airflow.iris._gen import controller_pb2, vm_pb2

from .feasibility import device_of
from .fleet import ScaleGroup
from .pending import unmet
from .scheduler import matching
from .status import BACKEND, stamp
from .table import PENDING, Job
from .workers import Worker, Workers

IDLE_THRESHOLD_MS = 600_000
_SLICE_STATES = ("requesting", "booting", "initializing", "ready", "failed")


def autoscaler_status(
    workers: Workers, jobs: Iterable[Job], running: dict[str, list[str]], now_ms: int
) -> controller_pb2.Controller.GetAutoscalerStatusResponse:
    waiting = [job for job in jobs if not job.is_terminal and any(task.state == PENDING for task in job.tasks)]
    status = vm_pb2.AutoscalerStatus(
        groups=[_group(group, workers, running) for group in workers.groups],
        current_demand={group.name: 0 for group in workers.groups},
        last_evaluation=stamp(now_ms),
        last_routing_decision=vm_pb2.RoutingDecision(
            unmet_entries=[entry for job in waiting for entry in _unmet(job, workers)],
            group_statuses=[
                vm_pb2.GroupRoutingStatus(group=group.name, decision="blocked", reason="at max slices")
                for group in workers.groups
            ],
        ),
    )
    return controller_pb2.Controller.GetAutoscalerStatusResponse(status=status)


def _group(group: ScaleGroup, workers: Workers, running: dict[str, list[str]]) -> vm_pb2.ScaleGroupStatus:
    slices = [_slice(slice_id, vms, running) for slice_id, vms in workers.slices(group).items()]
    return vm_pb2.ScaleGroupStatus(
        name=group.name,
        backend_id=BACKEND,
        current_demand=0,
        peak_demand=0,
        consecutive_failures=0,
        slices=slices,
        slice_state_counts={state: len(slices) if state == "ready" else 0 for state in _SLICE_STATES},
        availability_status="at_max_slices",
        availability_reason="",
        idle_threshold_ms=IDLE_THRESHOLD_MS,
        device_type=group.device_type,
        device_variant=group.variant,
        region=group.region,
    )


def _slice(slice_id: str, vms: list[Worker], running: dict[str, list[str]]) -> vm_pb2.SliceInfo:
    dead = sum(worker.lost_ms is not None for worker in vms) + vms[0].group.num_vms - len(vms)
    busy = any(running.get(worker.worker_id) for worker in vms)
    return vm_pb2.SliceInfo(
        slice_id=slice_id,
        scale_group=vms[0].group.name,
        created_at=stamp(vms[0].registered_ms),
        vms=[_vm(worker, len(running.get(worker.worker_id, []))) for worker in vms],
        error_message="",
        idle=not busy,
        state="ready",
        degraded_slot_count=dead,
        # Says `available` as soon as no task is shown on it, while the scheduler still waits for the drain.
        capacity_status="degraded" if dead else "in_use" if busy else "available",
    )


def _vm(worker: Worker, tasks: int) -> vm_pb2.VmInfo:
    alive = worker.lost_ms is None
    return vm_pb2.VmInfo(
        vm_id=f"{worker.slice_id}-vm-{worker.vm_index}",
        slice_id=worker.slice_id,
        scale_group=worker.group.name,
        state=vm_pb2.VM_STATE_READY,
        address=worker.address,
        zone=worker.group.zone,
        created_at=stamp(worker.registered_ms),
        state_changed_at=stamp(worker.registered_ms),
        worker_id=worker.worker_id,
        worker_healthy=alive,
        usability="healthy" if alive else "degraded",
        running_task_count=tasks,
    )


def _unmet(job: Job, workers: Workers) -> list[vm_pb2.UnmetDemand]:
    """One entry per gang, or per task that needs no company."""
    task_ids = [task.task_id for task in job.tasks if task.state == PENDING]
    bundles = [task_ids] if job.gang_level else [[task_id] for task_id in task_ids]
    device_type, variant = device_of(job.request)
    try:
        reason = unmet(job, len(task_ids), matching(job, workers.schedulable()))
    except TypeError as error:
        reason = str(error)
    return [
        vm_pb2.UnmetDemand(
            entry=vm_pb2.DemandEntryStatus(
                task_ids=ids,
                coschedule_group_id=job.job_id if job.gang_level else "",
                resources=vm_pb2.ResourceSpec(
                    cpu_millicores=job.need.cpu_millicores,
                    memory_bytes=job.need.memory_bytes,
                    disk_bytes=job.request.resources.disk_bytes,
                    gpu_count=job.need.gpus,
                    tpu_count=job.need.tpu_chips,
                ),
                device_type=device_type,
                device_variant=variant,
            ),
            reason=reason,
        )
        for ids in bundles
    ]
