"""A function's return value on its way home: how it is asked for, and the envelope that it comes in."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fray_airflow.errors import InvalidSpecError

MAX_RESULT_BYTES = 1024 * 1024
"""A result goes through the log service, a trigger's event and an XCom: for numbers and paths, not for models."""

ENCODINGS = ("json", "pickle")
SENDERS = ("first", "all")

Envelope = Mapping[str, Any]
"""`{"v": 1, "encoding": "json", "value": ...}`, with a pickle in base64, or `{"v": 1, "error": {...}}`."""


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """What becomes of what a function returns.

    encoding: "pickle" also lets through what is not JSON; it is then unpickled on the Airflow worker.
    senders: "first" is replica 0; "all" makes the result a list by replica.
    max_bytes: of the JSON text of one replica's value, or of its pickle in base64.
    """

    encoding: str = "json"
    senders: str = "first"
    max_bytes: int = MAX_RESULT_BYTES

    def __post_init__(self) -> None:
        faults = [
            f"{name}={value!r} is unknown; choose from {', '.join(map(repr, known))}"
            for name, value, known in (
                ("result", self.encoding, ENCODINGS),
                ("result_from", self.senders, SENDERS),
            )
            if value not in known
        ]
        if isinstance(self.max_bytes, bool) or not isinstance(self.max_bytes, int) or self.max_bytes <= 0:
            faults.append(f"max_result_bytes={self.max_bytes!r} is not a positive whole number")
        if faults:
            raise InvalidSpecError("result", faults)

    def to_json(self) -> dict[str, Any]:
        return {"encoding": self.encoding, "senders": self.senders, "max_bytes": self.max_bytes}


def read_envelope(text: str) -> Envelope | None:
    """None for what is no envelope: anybody may write under any key of the log service.

    >>> read_envelope('{"v": 1, "encoding": "json", "value": 3}')["value"]
    3
    """
    try:
        envelope = json.loads(text)
    except (ValueError, RecursionError):
        return None
    known = isinstance(envelope, dict) and ("error" in envelope or {"encoding", "value"} <= envelope.keys())
    return envelope if known else None


def unpack(envelope: Envelope, options: ResultOptions) -> Any:
    """The value in it. Raises ValueError if it cannot be had here; a pickle is opened only if the author allowed it."""
    encoding = envelope.get("encoding")
    if encoding == "json":
        return envelope["value"]
    if encoding != "pickle" or options.encoding != "pickle":
        raise ValueError(f"its encoding {encoding!r} was not asked for")
    try:
        return pickle.loads(base64.b64decode(envelope["value"]))
    except Exception as error:
        # Unpickling raises whatever the objects do, most often for a module that only the cluster has.
        raise ValueError(f"it cannot be unpickled here ({type(error).__name__}: {error})") from error
