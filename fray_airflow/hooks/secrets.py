"""Secrets of a job: references in the DAG, values only in the request, and none in what comes back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk import BaseHook, Variable
from airflow.sdk.log import mask_secret

from fray_airflow.errors import InvalidSpecError, JobFailedError
from fray_airflow.results import Envelope

_KINDS = "conn:<connection id> for its password, or var:<variable>"

_SHORTEST_SECRET = 8
"""A shorter one stands in many texts by chance: a password "1" would refuse every number with a 1."""


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


def refuse_secrets(facts: Mapping[str, Any], secrets: Mapping[str, str], *, enveloped: bool) -> None:
    """Raises JobFailedError if the result among a job's facts holds a value of `secrets`.

    Only as it is: one that the job has encoded is not seen. To be called before anything stores the result.
    `enveloped`: as it came from the log service, not opened yet.
    """
    for place, text in _texts(facts["result"], enveloped=enveloped):
        if name := next((name for name, value in secrets.items() if _holds(text, value)), None):
            raise JobFailedError(
                f"{facts['job_id']} {facts['state']}, but its result holds the secret {name}, at {place}. Airflow "
                "keeps results in its database, so it was dropped. Leave the secret out of what the job returns.",
                job_id=facts["job_id"],
                state=facts["state"],
            )


def holds_secret(result: Any, secrets: Mapping[str, str]) -> bool:
    """Whether a marked line, parsed, holds one of the values."""
    texts = _texts(result, enveloped=False)
    return bool(secrets) and any(_holds(text, value) for _, text in texts for value in secrets.values())


def hide(text: str, secrets: Mapping[str, str]) -> str:
    """`text` with *** for each value of `secrets`: for what Airflow stores, and its log's mask does not see."""
    for value in secrets.values():
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return text


def _holds(text: str | bytes, secret: str) -> bool:
    if len(secret) < _SHORTEST_SECRET:
        return False
    return secret.encode() in text if isinstance(text, bytes) else secret in text


def _texts(result: Any, *, enveloped: bool) -> Iterator[tuple[str, str | bytes]]:
    """Every text of a result with its place."""
    if not enveloped:
        yield from _leaves(result, "result")
    elif isinstance(result, list):
        for number, envelope in enumerate(result):
            yield from _opened(envelope, f"result[{number}]")
    else:
        yield from _opened(result, "result")


def _opened(envelope: Envelope, place: str) -> Iterator[tuple[str, str | bytes]]:
    if envelope.get("encoding") == "pickle":
        # Not unpickled for this: in a pickle, a text is there as it is.
        yield f"{place}, a pickle", base64.b64decode(str(envelope["value"]))
    else:
        yield from _leaves(envelope.get("value"), place)


def _leaves(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for number, (key, each) in enumerate(value.items()):
            yield f"key {number} of {place}", str(key)
            yield from _leaves(each, f"{place}[{key!r}]")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{place}[{number}]")
    else:
        yield place, value if isinstance(value, str) else json.dumps(value, default=str)
