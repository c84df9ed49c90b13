"""Whether a job could be placed now, asked of an Iris."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fray_airflow.devices import TpuConfig
from fray_airflow.errors import InvalidSpecError, IrisError, IrisUnavailableError
from fray_airflow.resources import ResourceConfig

if TYPE_CHECKING:
    from fray_airflow.iris import IrisClient
    from fray_airflow.iris.explanation import Fit


def fit_of(resources: ResourceConfig, client: IrisClient, *, gpu_gang_level: str | None = None) -> Fit:
    """Unknown where the shape cannot be counted, or the cluster does not let us look."""
    from fray_airflow.iris.explanation import Fit

    try:
        capacity = client.capacity(resources, gpu_gang_level=gpu_gang_level)
    except IrisUnavailableError:
        raise
    except (InvalidSpecError, IrisError) as error:
        return Fit("unknown", str(error))
    if not capacity.possible:
        return Fit("never", capacity.text)
    if _is_never_placed(resources):
        return Fit("never as one job", f"see above; for one job per slice, {capacity.text}")
    if capacity.free >= capacity.wanted:
        return Fit("yes", capacity.text)
    return Fit("after scaling up" if capacity.headroom else "no", capacity.text)


def _is_never_placed(resources: ResourceConfig) -> bool:
    """A gang over several slices."""
    device = resources.device
    return isinstance(device, TpuConfig) and 1 < device.vm_count() < resources.replicas
