"""The result of a job that succeeded: how it is asked for, and as a value of this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fray_airflow.errors import InvalidSpecError, JobFailedError
from fray_airflow.hooks.secrets import refuse_secrets
from fray_airflow.results import ResultOptions, unpack

if TYPE_CHECKING:
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

RESULTS = ("line", "file")
"""What IrisSubmitJobOperator's `result` may be."""


def result_faults(operator: IrisSubmitJobOperator) -> Iterator[str]:
    """What is wrong with how the result is asked for, as far as it can be known when the DAG is parsed."""
    if operator.result not in RESULTS:
        yield f"result={operator.result!r} is unknown; choose from {', '.join(map(repr, RESULTS))}"
        return
    function = operator._entrypoint
    if operator.result == "file" and function is not None:
        yield (
            'result="file" is for commands; a function returns its result with '
            "Entrypoint.from_callable(f, result=ResultOptions()), or with @task.iris"
        )
    asked = 'result="file"' if operator.result == "file" else "result_uri" if operator.result_uri is not None else ""
    if asked and not operator.wait_for_completion:
        yield f"{asked} is read at the end of the job; leave out wait_for_completion=False"
    try:
        asked_options(operator, operator._given_result)
    except InvalidSpecError as error:
        yield from error.faults


def asked_options(operator: IrisSubmitJobOperator, given: ResultOptions | None) -> ResultOptions | None:
    """How this operator's job is to deliver; None for a marked line. `given` came with the function.

    Raises InvalidSpecError.
    """
    uri = operator.result_uri
    if given is not None:
        return ResultOptions(given.encoding, given.senders, given.max_bytes, uri)
    options = ResultOptions("json", operator.result_from, operator.max_result_bytes, uri)
    return options if uri is not None or operator.result == "file" else None


def check_readable(options: ResultOptions | None) -> None:
    """Before the job runs for hours: whether this worker has what reads the URI. Raises InvalidSpecError."""
    if options is None or options.uri is None:
        return
    from airflow.sdk import ObjectStoragePath

    try:
        ObjectStoragePath(options.uri).fs  # noqa: B018  # made when it is first asked for
    except (ValueError, ImportError) as error:
        raise InvalidSpecError(
            "IrisSubmitJobOperator",
            [
                f"result_uri={options.uri!r} cannot be read by this Airflow ({error}); install the provider of this "
                "storage, such as apache-airflow-providers-amazon[s3fs] for s3"
            ],
        ) from error


def deliver(facts: Mapping[str, Any], options: ResultOptions | None, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The facts with the job's result as a value, or a list of values by replica.

    Raises JobFailedError for one that is not there, cannot be had here, or holds one of the values of `secrets`.
    """
    if options is not None and options.uri is not None:
        facts = {**facts, "result": _read_uri(facts, options.uri, options.max_bytes)}
    enveloped = options is not None and options.uri is None
    if secrets:
        refuse_secrets(facts, secrets, enveloped=enveloped)
    return {**facts, "result": _unpacked(facts, options)} if options is not None and enveloped else dict(facts)


def _unpacked(facts: Mapping[str, Any], options: ResultOptions) -> Any:
    envelopes = facts["result"]
    try:
        if isinstance(envelopes, list):
            return [unpack(envelope, options) for envelope in envelopes]
        return unpack(envelopes, options)
    except ValueError as error:
        raise _failed(facts, f"its result cannot be used: {error}. Return plain JSON values.") from error


def _read_uri(facts: Mapping[str, Any], uri: str, limit: int) -> Any:
    from airflow.sdk import ObjectStoragePath

    try:
        with ObjectStoragePath(uri).open("rb") as file:
            data: bytes = file.read(limit + 1)
    except FileNotFoundError as error:
        raise _failed(
            facts,
            f"there is no result at {uri} (result_uri). The job has to write it before it ends, for example with "
            'python "$IRIS_WORKDIR/_fray/push_result.py" FILE. Clear the task to run it again.',
        ) from error
    except Exception as error:
        # Storage libraries raise errors of their own kinds.
        raise _failed(
            facts, f"its result at {uri} (result_uri) cannot be read ({type(error).__name__}: {error})"
        ) from error
    if len(data) > limit:
        raise _failed(
            facts,
            f"its result at {uri} has more than max_result_bytes={limit} bytes. Write the rest elsewhere and return "
            "its path, or raise max_result_bytes.",
        )
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _failed(facts, f"its result at {uri} is not JSON ({error})") from error


def _failed(facts: Mapping[str, Any], what: str) -> JobFailedError:
    job_id, state = facts["job_id"], facts["state"]
    return JobFailedError(f"{job_id} {state}, but {what}", job_id=job_id, state=state)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}, which JSON does not have")
