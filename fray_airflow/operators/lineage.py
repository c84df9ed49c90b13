"""OpenLineage: the facets that Airflow's provider asks an operator for, and the parent run of what runs inside a job.

Nothing of OpenLineage is imported before its provider calls, or before a job is submitted where it is enabled.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fray_airflow.errors import FrayError
from fray_airflow.job import EnvironmentConfig, JobRequest
from fray_airflow.operators.rungs import RungJob, describe
from fray_airflow.plain import resource_config_from

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

PARENT_ENV = "OPENLINEAGE_PARENT_ID"
ROOT_PARENT_ENV = "OPENLINEAGE_ROOT_PARENT_ID"
CONTEXT_ENV = "OPENLINEAGE_CONTEXT"

_log = logging.getLogger(__name__)


class LineageMethods:
    """What the OpenLineage provider looks for in an operator, and calls in a copy of the worker's process.

    They ask neither Iris nor Airflow: the copy shares its connection to Airflow with the worker.
    """

    iris_conn_id: str
    resource_config: Any
    job_url: str
    _facts: Mapping[str, Any] = {}
    """Of the launch, as far as this process knows: set at the end of a try, also of one that failed."""

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Before the job is submitted, and again when a deferred task resumes: which machines are asked for."""
        return _lineage({**self._asked(), "conn_id": self.iris_conn_id})

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        return self._at_the_end()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Of a task that failed before its job was known, the same as at the start."""
        return self._at_the_end()

    def _at_the_end(self) -> OperatorLineage[Any, Any]:
        return _lineage({**self._asked(), **self._facts, "conn_id": self.iris_conn_id, "url": self.job_url or None})

    def _asked(self) -> dict[str, Any]:
        """Of the first choice of machines."""
        try:
            resources = resource_config_from(self.resource_config or {})
        except (FrayError, TypeError, ValueError):
            return {}
        device = str(getattr(resources.device, "variant", "cpu"))
        return {"machines": describe(resources), "device": device, "replicas": resources.replicas}


def with_parent_run(rungs: Sequence[RungJob], operator: Any, ti: Any) -> list[RungJob]:
    """The jobs with variables that make this task instance the parent of what reports lineage inside them.

    As they are without the OpenLineage provider, or where it emits nothing for this task. A job whose author sets one
    of the variables, be it to "", gets none. The values are the same in every launch of a try.
    """
    variables = _parent_run(operator, ti)
    return [replace(each, job=_with_defaults(each.job, variables)) for each in rungs] if variables else list(rungs)


def _with_defaults(job: JobRequest, variables: Mapping[str, str]) -> JobRequest:
    environment = job.environment or EnvironmentConfig()
    if variables.keys() & {*environment.env_vars, *environment.secrets}:
        return job
    return replace(job, environment=replace(environment, env_vars={**variables, **environment.env_vars}))


def _parent_run(operator: Any, ti: Any) -> dict[str, str]:
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return {}
    try:
        return {} if conf.is_disabled() or not _emits(operator, ti) else _variables(ti)
    except Exception:
        # A job is worth more than its lineage.
        _log.warning("The job gets no OpenLineage parent.", exc_info=True)
        return {}


def _variables(ti: Any) -> dict[str, str]:
    from airflow.providers.openlineage.plugins import macros

    run = _run(macros.lineage_job_namespace(), macros.lineage_job_name(ti), macros.lineage_run_id(ti))
    root = _run(macros.lineage_root_job_namespace(ti), macros.lineage_root_job_name(ti), macros.lineage_root_run_id(ti))
    return {
        PARENT_ENV: macros.lineage_parent_id(ti),
        ROOT_PARENT_ENV: macros.lineage_root_parent_id(ti),
        # Newer clients prefer this one, which a namespace may have slashes in.
        CONTEXT_ENV: json.dumps({"parent": {**run, "root": root}}),
    }


def _run(namespace: str, name: str, run_id: str) -> dict[str, dict[str, str]]:
    return {"run": {"runId": run_id}, "job": {"namespace": namespace, "name": name}}


def _emits(operator: Any, ti: Any) -> bool:
    """Whether the provider reports this task. A parent that nobody reported would leave the job's runs without one."""
    try:
        from airflow.providers.openlineage.utils.emission_policy import resolve_task_emission_policy
    except ImportError:
        # An older provider decides by other settings, per operator.
        return True
    return bool(resolve_task_emission_policy(operator, ti.dag_id, ti.task_id).emit)


def _lineage(facts: Mapping[str, Any]) -> OperatorLineage[Any, Any]:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from fray_airflow.operators.lineage_facets import run_facets

    return OperatorLineage(run_facets=run_facets(facts))
