"""What a function returned on the cluster, as a value of this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fray_airflow.errors import JobFailedError
from fray_airflow.results import ResultOptions, unpack


def unpack_result(facts: Mapping[str, Any], options: ResultOptions) -> Any:
    """The value, or the list of them by replica. Raises JobFailedError for one that cannot be had here."""
    envelopes = facts["result"]
    try:
        if isinstance(envelopes, list):
            return [unpack(envelope, options) for envelope in envelopes]
        return unpack(envelopes, options)
    except ValueError as error:
        raise JobFailedError(
            f"{facts['job_id']} SUCCEEDED, but its result cannot be used: {error}. Return plain JSON values.",
            job_id=facts["job_id"],
            state=facts["state"],
        ) from error
