"""Secrets of a job: references in the DAG, values only in the request."""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk import BaseHook, Variable
from airflow.sdk.log import mask_secret

from fray_airflow.errors import InvalidSpecError

_KINDS = "conn:<connection id> for its password, or var:<variable>"


def check_references(secrets: Mapping[str, str]) -> list[str]:
    """Faults of references, without resolving them. A value itself is refused, and not shown: it may be the secret."""
    return [
        f"secrets: {name} is not a reference; write {_KINDS}"
        for name, reference in secrets.items()
        if not isinstance(reference, str) or not reference.startswith(("conn:", "var:")) or reference.endswith(":")
    ]


def resolve(secrets: Mapping[str, str]) -> dict[str, str]:
    """The values, masked in logs from here on. Raises InvalidSpecError for a connection without a password."""
    resolved, faults = {}, []
    for name, reference in secrets.items():
        kind, _, key = reference.partition(":")
        value = BaseHook.get_connection(key).password if kind == "conn" else Variable.get(key)
        if not value:
            faults.append(f"secrets: {name} refers to {reference}, which holds nothing")
            continue
        mask_secret(value)
        resolved[name] = value
    if faults:
        raise InvalidSpecError("IrisSubmitJobOperator", faults)
    return resolved
