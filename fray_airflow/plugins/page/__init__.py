"""What IrisPlugin registers for the Iris page. Every process of Airflow loads this, so it imports next to nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

PREFIX = "/fray-airflow"
"""Where the page and its data are, below Airflow's base URL."""

ROUTE = "iris"
"""The page's place in Airflow's own pages: `plugin/iris`."""

TASK_ROUTE = "iris-job"


class LazyApp:
    """An ASGI app that is imported and built when it is first asked for: in API servers only."""

    def __init__(self) -> None:
        self._app: Callable[..., Awaitable[None]] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from fray_airflow.plugins.page.app import build_app

            self._app = build_app()
        await self._app(scope, receive, send)


def _icon(colour: str, fill: str) -> str:
    """Three petals, as a data URI: a file would need a route without a check. Filled, to be seen on any ground."""
    petal = "M12 12C7 9 7 3 12 1c5 2 5 8 0 11z"
    turned = "".join(f"%3Cpath d='{petal}' transform='rotate({angle} 12 12)'/%3E" for angle in (0, 120, 240))
    return (
        f"data:image/svg+xml;utf8,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='%23{fill}' "
        f"stroke='%23{colour}' stroke-width='1.6'%3E{turned}%3C/svg%3E"
    )


_ICONS = {"icon": _icon("3f3f46", "ffffff"), "icon_dark_mode": _icon("e4e4e7", "334155")}
_HREF = f"{PREFIX.removeprefix('/')}/page"

FASTAPI_APPS: list[dict[str, Any]] = [{"app": LazyApp(), "url_prefix": PREFIX, "name": "Iris"}]

# Addresses without a leading slash: they resolve against Airflow's base URL, which may have a path.
EXTERNAL_VIEWS: list[dict[str, Any]] = [
    {"name": "Iris", "href": _HREF, "destination": "nav", "url_route": ROUTE, **_ICONS},
    {
        "name": "Iris",
        "href": f"{_HREF}?dag_id={{DAG_ID}}&run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}",
        "destination": "task_instance",
        "url_route": TASK_ROUTE,
        **_ICONS,
    },
]
