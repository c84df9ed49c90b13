"""What Airflow loads of this package in each of its processes: a page, and a listener for marks. Keep it light."""

from __future__ import annotations

from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from fray_airflow.plugins.last_look import listeners
from fray_airflow.plugins.page import EXTERNAL_VIEWS, FASTAPI_APPS


class IrisPlugin(AirflowPlugin):
    """Found by its entry point."""

    name = "iris"
    fastapi_apps = FASTAPI_APPS
    external_views = EXTERNAL_VIEWS

    @property
    def listeners(self) -> list[Any]:  # type: ignore[override]  # an attribute in Airflow
        """Asked when the first event of a process is told, when it is known which process this is."""
        return listeners()
