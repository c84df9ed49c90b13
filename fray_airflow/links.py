"""The link from a task instance to its job's page in Iris."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

JOB_URL_KEY = "iris_job_url"
"""The XCom that holds the address. An operator pushes it early and keeps it in its attribute `job_url`."""


class IrisJobLink(BaseOperatorLink):
    """Shown from the moment the job is known, also while the task is deferred and after a failure."""

    name = "Iris job"
    xcom_key = JOB_URL_KEY

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Airflow calls this on the worker at the end of each of its turns, and keeps the answer as the XCom."""
        return getattr(operator, "job_url", "")


def job_url(dashboard_url: str, job_id: str) -> str:
    """The job's page below the dashboard's address, without what could be a credential in it.

    >>> job_url("https://me:secret@iris.example.com/ui/?token=x", "/airflow/train-1")
    'https://iris.example.com/ui/#/job/%2Fairflow%2Ftrain-1'
    """
    parts = urlsplit(dashboard_url if "://" in dashboard_url else f"http://{dashboard_url}")
    authority = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{authority}{parts.path.rstrip('/')}/#/job/{quote(job_id, safe='')}"
