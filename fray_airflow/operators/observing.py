"""The end of a try, told to those who watch: metrics, the facts of a failure as an XCom, and what lineage asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowTaskTimeout

from fray_airflow.metrics import send_metrics

if TYPE_CHECKING:
    from fray_airflow.operators.submit_job import IrisSubmitJobOperator

JOB_FACTS_KEY = "iris_job"
"""The XCom that holds the facts of a job without its result: after a failure, and of @task.iris after a success too."""


@contextmanager
def observed(operator: IrisSubmitJobOperator, ti: Any, event: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Around one turn of a task on a worker; `event` is that of the trigger before it. A deferral is no end."""
    # In tests and in `dag.test()` one process runs all turns, and the launch of the one before may still be there.
    operator._launch = None
    operator._facts = _facts_of(event or {})
    try:
        yield
    except (Exception, AirflowTaskTimeout):
        _learn(operator)
        _push(operator, ti)
        send_metrics(operator._facts, conn_id=operator.iris_conn_id)
        raise
    _learn(operator)
    send_metrics(operator._facts, conn_id=operator.iris_conn_id)


def _facts_of(event: Mapping[str, Any]) -> dict[str, Any]:
    return dict(event.get("facts") or {})


def _learn(operator: IrisSubmitJobOperator) -> None:
    launch = operator._launch
    if launch is not None:
        operator._facts = {**launch.talk.facts(), "server": launch.server}


def _push(operator: IrisSubmitJobOperator, ti: Any) -> None:
    """For callbacks and tasks that come after a failure. The failure itself must not be lost for it."""
    if not operator._facts.get("job_id"):
        return
    try:
        ti.xcom_push(key=JOB_FACTS_KEY, value=dict(operator._facts))
    except Exception as error:
        operator.log.warning("The facts of %s could not be pushed: %s", operator._facts["job_id"], error)
