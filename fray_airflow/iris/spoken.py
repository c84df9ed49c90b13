"""Which transport a target speaks, where nobody said: found out once per process, by a call that changes nothing."""

from __future__ import annotations

import logging
from dataclasses import replace

from fray_airflow.iris.failure import WireFailure
from fray_airflow.iris.over_grpc import speaks_connect
from fray_airflow.iris.target import Target, Transport

log = logging.getLogger(__name__)

_known: dict[str, Transport] = {}


def known_transport(target: Target) -> Transport:
    """The target's own, else what was found out before, else "auto"."""
    return target.transport if target.transport != "auto" else _known.get(target.authority, "auto")


def learn_transport(target: Target, answer: WireFailure | None) -> Transport:
    """What `answer` to a gRPC GetCurrentUser shows; None is a good reply. Raises it if it shows nothing."""
    if answer is None:
        found: Transport = "grpc"
    elif speaks_connect(answer):
        found = "connect"
    elif answer.transient:
        raise answer
    else:
        # A refusal (a wrong token, say) came as a gRPC status, so gRPC was understood.
        found = "grpc"
    _known[target.authority] = found
    log.info("Iris at %s speaks %s", target, "gRPC" if found == "grpc" else "Connect")
    return found


def speaking(target: Target, transport: Transport) -> Target:
    return replace(target, transport=transport)
