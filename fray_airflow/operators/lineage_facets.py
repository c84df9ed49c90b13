"""The facets of an OpenLineage run. Importable where the OpenLineage provider is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from attrs import define, fields
from openlineage.client.facet_v2 import RunFacet, external_query_run

PRODUCER = f"urn:fray-airflow:{version('fray-airflow')}"

SCHEMA_URL = "urn:fray-airflow:openlineage:IrisJobRunFacet:1-0-0#/$defs/IrisJobRunFacet"
"""`iris_job_run_facet.json` beside this module is the schema. A field more makes it 1-1-0, another meaning 2-0-0."""


@define(kw_only=True)
class IrisJobRunFacet(RunFacet):
    """What `launch_facts` tells of a job, in OpenLineage's spelling. What is not known is left out of the event."""

    connId: str
    server: str | None = None
    jobId: str | None = None
    jobIds: list[str] | None = None
    url: str | None = None
    state: str | None = None
    adopted: bool | None = None
    rung: int | None = None
    machines: str | None = None
    device: str | None = None
    replicas: int | None = None
    slices: list[str] | None = None
    placement: list[dict[str, Any]] | None = None
    queueSeconds: float | None = None
    runSeconds: float | None = None
    chipSeconds: float | None = None
    failureCount: int | None = None
    preemptionCount: int | None = None
    launches: int | None = None
    outages: int | None = None
    failedReplica: int | None = None
    exitCode: int | None = None

    @staticmethod
    def _get_schema() -> str:
        return SCHEMA_URL


def run_facets(facts: Mapping[str, Any]) -> dict[str, RunFacet]:
    """`iris_job`, and `externalQuery` where there is a job to link to."""
    names = {each.name for each in fields(IrisJobRunFacet)}
    known: dict[str, Any] = {_spelled(name): value for name, value in facts.items() if value not in (None, "")}
    arguments = {"producer": PRODUCER, **{name: value for name, value in known.items() if name in names}}
    facet = IrisJobRunFacet(**arguments)
    if not (job_id := facts.get("job_id")):
        return {"iris_job": facet}
    source = str(facts.get("server") or "iris")
    query = external_query_run.ExternalQueryRunFacet(externalQueryId=job_id, source=source, producer=PRODUCER)
    return {"externalQuery": query, "iris_job": facet}


def _spelled(name: str) -> str:
    """
    >>> _spelled("queue_seconds")
    'queueSeconds'
    """
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
