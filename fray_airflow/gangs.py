"""The level of a cluster's network that the hosts of a GPU gang share, by the name of a worker attribute."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fray_airflow.status import Worker

KNOWN_LEVELS = ("leafgroup", "nvlink.domain", "nvlink.domain.sliced", "nvlink.domain.preferred")
"""The names that Iris itself knows, for GPUs on Kubernetes (marin-iris 0.2.227.dev40316220070). Others are a cluster's
own."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_NONE_HAS = re.compile(r"none have '([^']+)' attribute")
_OF_ONE_MACHINE = ("device-", "gpu-", "tpu-", "preemptible")


def level_fault(level: Any) -> str:
    """What is wrong with a `gpu_gang_level`, "" if nothing: None is none."""
    if level is None or (isinstance(level, str) and _NAME.fullmatch(level)):
        return ""
    return (
        f"gpu_gang_level={level!r} is no name of a worker attribute; give one that the hosts of a gang share: "
        f"{', '.join(KNOWN_LEVELS)}, or one of the cluster's own"
    )


def missing_level(pending_reason: str) -> str:
    """The attribute that all of a gang's workers lack, as Iris's scheduler says; "" if that is not what it says.

    Iris changes such texts at will. Then nothing is found, and its own words have to do.
    """
    found = _NONE_HAS.search(pending_reason)
    return found[1] if found else ""


def shared_levels(workers: Iterable[Worker]) -> dict[str, int]:
    """Attributes of GPU workers that could be levels, with the most hosts that share a value; those with more first."""
    values: dict[str, Counter[Any]] = defaultdict(Counter)
    for worker in workers:
        if str(worker.attributes.get("device-type", "")).lower() == "gpu":
            for name, value in worker.attributes.items():
                if not name.startswith(_OF_ONE_MACHINE):
                    values[name][value] += 1
    most = {name: max(counts.values()) for name, counts in values.items()}
    return dict(sorted(most.items(), key=lambda item: (-item[1], item[0])))


def level_advice(level: str, workers: Iterable[Worker]) -> str:
    """What to do about a gang whose level none of its workers has; others may have it."""
    levels = {name: count for name, count in shared_levels(workers).items() if name != level}
    says = f"No worker that would do has the attribute {level!r}, so Iris never places this gang. "
    if not levels:
        return says + "GPU workers have no attribute that hosts could share; ask for one where the cluster is run."
    have = ", ".join(f"{name} (up to {count} {'host' if count == 1 else 'hosts'})" for name, count in levels.items())
    return says + f"GPU workers share {have}: set gpu_gang_level, of the task or of the connection, to one of these."
