"""The link from a task instance to its job's page in Iris."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

JOB_URL_KEY = "iris_job_url"
"""The XCom that holds the address."""


class IrisJobLink(BaseOperatorLink):
    """Shown from the moment the job is known, also while the task is deferred and after a failure."""

    name = "Iris job"
    xcom_key = JOB_URL_KEY

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return XCom.get_value(key=self.xcom_key, ti_key=ti_key) or ""


def job_url(dashboard_url: str, job_id: str) -> str:
    """The job's page below the dashboard's address, without what could be a credential in it.

    >>> job_url("https://me:secret@iris.example.com/ui/?token=x", "/airflow/train-1")
    'https://iris.example.com/ui/#/job/%2Fairflow%2Ftrain-1'
    """
    parts = urlsplit(dashboard_url if "://" in dashboard_url else f"http://{dashboard_url}")
    authority = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{authority}{parts.path.rstrip('/')}/#/job/{quote(job_id, safe='')}"
