"""Whether any scale group could ever run a request: the part of admission that looks at the fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fray_airflow.iris._gen import controller_pb2, job_pb2
from fray_airflow.tpu import TPU_TOPOLOGIES

from .constraints import AVAILABILITY, check_regions, is_ordering, matches, required, values_of
from .fleet import ScaleGroup
from .wire_error import WireError
from .workers import Need

Request = controller_pb2.Controller.LaunchJobRequest
Groups = Sequence[ScaleGroup]


def need_of(resources: job_pb2.ResourceSpecProto) -> Need:
    """What a task takes of a VM. A GPU count of 0 means 1; a TPU count of 0 means all chips of the VM."""
    device = resources.device
    chips = gpus = 0
    match device.WhichOneof("device"):
        case "gpu":
            gpus = device.gpu.count or 1
        case "tpu":
            topology = TPU_TOPOLOGIES.get(device.tpu.variant.strip().lower())
            chips = device.tpu.count or (topology.chips_per_vm if topology else 1)
    return Need(max(resources.cpu_millicores, 0), max(resources.memory_bytes, 0), chips, gpus)


def check(request: Request, groups: Groups) -> None:
    """Raises WireError when the request names what the fleet lacks, and ValueError where Iris answers `internal`."""
    _check_tpu_shape(request)
    _check_cluster_pin(request)
    for constraint in request.constraints:
        if constraint.key.startswith(AVAILABILITY):
            _check_availability(request, constraint.key.removeprefix(AVAILABILITY), groups)
    matching = _matching_groups(request, groups)
    _check_gang(request, matching)
    _check_capacity(request, matching)


def _check_tpu_shape(request: Request) -> None:
    device = request.resources.device
    if device.WhichOneof("device") != "tpu":
        return
    variant = device.tpu.variant.strip().lower()
    topology = TPU_TOPOLOGIES.get(variant)
    if topology and device.tpu.count not in (0, topology.chips_per_vm):
        counts = f"{variant} has {topology.chips_per_vm} chips per VM, requested {device.tpu.count}"
        raise WireError("invalid_argument", f"TPU chip count mismatch: {counts}")
    for constraint in request.constraints:
        if constraint.key == "device-variant" and constraint.op == job_pb2.CONSTRAINT_OP_IN:
            names = [str(value) for value in values_of(constraint)]
            known = [TPU_TOPOLOGIES[name] for name in names if name in TPU_TOPOLOGIES]
            if len({(shape.vm_count, shape.chips_per_vm) for shape in known}) > 1:
                message = f"TPU variant alternatives have incompatible VM shapes: {', '.join(names)}"
                raise WireError("invalid_argument", message)


def _check_cluster_pin(request: Request) -> None:
    for constraint in request.constraints:
        if constraint.key == "cluster" and constraint.op == job_pb2.CONSTRAINT_OP_EQ:
            peer = values_of(constraint)[0]
            message = f"Job {request.name} pins cluster '{peer}', which is not a configured federation peer."
            raise WireError("invalid_argument", message)


def _check_availability(request: Request, variant: str, groups: Groups) -> None:
    if not any(group.variant == variant.lower() for group in groups):
        raise _unschedulable(request, f"availability of {variant}: 0 of {len(groups)} groups offer it")


def _matching_groups(request: Request, groups: Groups) -> Groups:
    """Narrow the groups down key by key, so that the refusal names the key which left none."""
    device = _device_label(request)
    offered = ", ".join(sorted({_label(group) for group in groups}))
    stages: list[tuple[tuple[str, ...], Callable[[], str]]] = [
        (
            ("device-type", "device-variant"),
            lambda: f"no scaling group provides device {device} (available: {offered})",
        ),
        (("preemptible",), lambda: f"no {_wanted_kind(request)} group provides device {device}"),
        (("region",), lambda: f"no groups in region {_asked(request, 'region')}"),
        (("zone",), lambda: f"no groups in zone {_asked(request, 'zone')}"),
    ]
    for keys, refusal in stages:
        groups = [group for group in groups if _meets(request, keys, group)]
        if not groups:
            check_regions(request.constraints)
            raise _unschedulable(request, refusal())
    return groups


def _meets(request: Request, keys: Iterable[str], group: ScaleGroup) -> bool:
    attributes = group.attributes()
    asked = [rule for rule in required(request.constraints) if rule.key in keys]
    # What orders a text is let through here and stops the scheduler later, as in Iris.
    return all(is_ordering(rule) or matches(rule, attributes) for rule in asked)


def _check_gang(request: Request, groups: Groups) -> None:
    if not request.HasField("coscheduling") or request.replicas <= 1:
        return
    if not any(request.replicas % group.num_vms == 0 for group in groups):
        sizes = {group.name: group.num_vms for group in groups}
        raise WireError(
            "failed_precondition",
            f"Job {request.name} is unschedulable: job requires {request.replicas} coscheduled replicas but no "
            f"matching scaling group has a compatible size (replicas must be an exact multiple of num_vms); "
            f"matching group sizes: {sizes}",
        )


def _check_capacity(request: Request, groups: Groups) -> None:
    resources, need = request.resources, need_of(request.resources)
    shortages = []
    for group in groups:
        asked = {
            "cpu": (need.cpu_millicores, group.cpu_millicores),
            "memory": (need.memory_bytes, group.memory_bytes),
            "disk": (resources.disk_bytes, group.disk_bytes),
            "gpu": (need.gpus, group.gpus),
        }
        lacking = [f"{what}: need {want}, available {have}" for what, (want, have) in asked.items() if want > have]
        if not lacking:
            return
        shortages.append(f"{group.name} ({', '.join(lacking)})")
    reason = f"no matching scaling group has enough per-VM capacity: {'; '.join(shortages)}"
    raise _unschedulable(request, reason)


def _unschedulable(request: Request, reason: str) -> WireError:
    keys = [constraint.key for constraint in request.constraints]
    return WireError("failed_precondition", f"Job {request.name} is unschedulable: {reason} (constraints: {keys})")


def device_of(request: Request) -> tuple[str, str]:
    """Type and variant that an admitted request asks for."""
    return _asked(request, "device-type") or "cpu", _asked(request, "device-variant")


def _device_label(request: Request) -> str:
    return ":".join(part for part in device_of(request) if part)


def _label(group: ScaleGroup) -> str:
    return f"{group.device_type}:{group.variant}" if group.variant else group.device_type


def _asked(request: Request, key: str) -> str:
    asked = [rule for rule in request.constraints if rule.key == key]
    return ", ".join(str(value) for rule in asked for value in values_of(rule))


def _wanted_kind(request: Request) -> str:
    return "preemptible" if _asked(request, "preemptible") == "true" else "non-preemptible"
