"""A job's result on its way home: how it is asked for, and the envelope that it comes in."""

from __future__ import annotations

import base64
import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fray_airflow.errors import InvalidSpecError

MAX_RESULT_BYTES = 1024 * 1024
"""A result goes through the log service, a trigger's event and an XCom: for numbers and paths, not for models."""

ENCODINGS = ("json", "pickle")
SENDERS = ("first", "all")

RESULT_URI_ENV = "FRAY_AIRFLOW_RESULT_URI"
"""The job's variable with the place to which its result is to be written, where the author set one."""

_CONNECTION = re.compile(r"(?<=://)[^/@]*@")

Envelope = Mapping[str, Any]
"""`{"v": 1, "encoding": "json", "value": ...}`, with a pickle in base64, or `{"v": 1, "error": {...}}`."""


@dataclass(frozen=True, slots=True)
class ResultOptions:
    """What becomes of what a function returns, or a command pushes.

    encoding: "pickle" also lets through what is not JSON; it is then unpickled on the Airflow worker.
    senders: "first" is replica 0; "all" makes the result a list by replica.
    max_bytes: of the JSON text of one replica's value, or of its pickle in base64.
    uri: where the result is written as JSON, and read from, instead of the log service. May hold templates.
    """

    encoding: str = "json"
    senders: str = "first"
    max_bytes: int = MAX_RESULT_BYTES
    uri: str | None = None

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
        if self.uri is not None:
            faults.extend(
                f"{name}={value!r} does not go with result_uri, which holds the JSON of replica 0 alone"
                for name, value, only in (("result", self.encoding, "json"), ("result_from", self.senders, "first"))
                if value != only
            )
        if faults:
            raise InvalidSpecError("result", faults)

    @property
    def awaited(self) -> str:
        """What `Plan.result` says of it."""
        return self.senders if self.uri is None else "uri"

    def to_json(self) -> dict[str, Any]:
        return {"encoding": self.encoding, "senders": self.senders, "max_bytes": self.max_bytes}


def check_uri(uri: Any) -> str:
    """`uri`, if its templates have made one. Raises ValueError."""
    if not isinstance(uri, str) or not re.match(r"[a-z][a-z0-9+.-]*://.", uri) or uri.startswith("file://."):
        raise ValueError(
            "not a URI; write scheme://, such as s3://bucket/{{ run_id }}.json or file:///shared/{{ run_id }}.json"
        )
    return uri


def uri_for_job(uri: str) -> str:
    """Without the Airflow connection, which means nothing to a job.

    >>> uri_for_job("s3://aws_default@bucket/key.json")
    's3://bucket/key.json'
    """
    return _CONNECTION.sub("", uri, count=1)


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
