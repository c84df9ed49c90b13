"""The page's own small server inside Airflow's API server.

Airflow mounts it without any check of its own, so every route here depends on Airflow's: who asks, whether they may see
plugins, and for a job whether they may read the XComs of its DAG. Nothing here changes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag, requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response

from fray_airflow.plugins.page import launches, views
from fray_airflow.plugins.page.controllers import Controllers
from fray_airflow.plugins.page.launches import Launched

_STATIC = Path(__file__).parent / "static"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_HEADERS = {
    # Names come from Iris and from authors. The page shows them as text, and nothing on it can be a script but its own.
    "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_PAGE = 500
"""The most replicas or workers in one answer."""

_MAY_READ = [Depends(requires_access_dag("GET", access_entity=DagAccessEntity.XCOM))]
_MAY_SEE_CLUSTER = [Depends(requires_access_view(AccessView.CLUSTER_ACTIVITY))]

Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=_PAGE)]


def build_app() -> FastAPI:
    """To be called on the event loop that will serve it."""
    app = FastAPI(
        title="Iris",
        dependencies=[Depends(requires_access_view(AccessView.PLUGINS))],
        # These three would be open to everybody: an app's dependencies do not cover them.
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.middleware("http")(_with_headers)
    _add_files(app)
    _add_jobs(app, Controllers())
    return app


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    response.headers.update(_HEADERS)
    return response


def _add_files(app: FastAPI) -> None:
    files = {path.name: path for path in _STATIC.iterdir() if path.suffix in _TYPES}

    @app.get("/page")
    async def page() -> Response:
        return _file(files["iris.html"])

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in files:
            raise HTTPException(404, f"no file {name!r}")
        return _file(files[name])


def _file(path: Path) -> Response:
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])


def _add_jobs(app: FastAPI, controllers: Controllers) -> None:
    @app.get("/api/jobs")
    async def jobs(
        user: GetUserDep, dag_contains: Annotated[str, Query(max_length=250)] = "", offset: Offset = 0
    ) -> dict[str, Any]:
        """The newest launches of all DAGs that the user may read."""
        read = partial(launches.recent, user, dag_contains=dag_contains, offset=offset)
        found, more = await controllers.in_thread(read)
        rows = await asyncio.gather(*(_launch(controllers, launched) for launched in found))
        return {"launches": rows, "more": more, "offset": offset}

    @app.get("/api/launch", dependencies=_MAY_READ)
    async def launch(launched: LaunchedDep) -> dict[str, Any]:
        return await _launch(controllers, launched)

    @app.get("/api/replicas", dependencies=_MAY_READ)
    async def replicas(launched: LaunchedDep, job_id: str, offset: Offset = 0, limit: Limit = _PAGE) -> dict[str, Any]:
        """A page of one job's replicas."""
        if job_id not in launched.job_ids:
            raise HTTPException(404, "not a job of this task instance")
        tasks, workers, fleet = await asyncio.gather(
            controllers.tasks(launched.conn_id, job_id),
            controllers.workers(launched.conn_id),
            controllers.autoscaler(launched.conn_id),
        )
        slices = views.slices_of(workers.value or [], fleet.value)
        return views.replicas(tasks.value or [], slices, offset=offset, limit=limit) | views.news(tasks)

    @app.get("/api/connections", dependencies=_MAY_SEE_CLUSTER)
    async def connections(user: GetUserDep) -> list[str]:
        return await controllers.in_thread(partial(launches.connections, user))

    @app.get("/api/cluster", dependencies=_MAY_SEE_CLUSTER)
    async def cluster(user: GetUserDep, conn_id: str) -> dict[str, Any]:
        await _check_connection(controllers, user, conn_id)
        fleet, workers = await asyncio.gather(controllers.autoscaler(conn_id), controllers.workers(conn_id))
        told = views.cluster(fleet.value, workers.value or []) if fleet.value is not None else {"groups": None}
        return told | views.news(fleet) | {"conn_id": conn_id}

    @app.get("/api/workers", dependencies=_MAY_SEE_CLUSTER)
    async def workers(
        user: GetUserDep, conn_id: str, group: str = "", offset: Offset = 0, limit: Limit = _PAGE
    ) -> dict[str, Any]:
        await _check_connection(controllers, user, conn_id)
        fleet, heard = await asyncio.gather(controllers.autoscaler(conn_id), controllers.workers(conn_id))
        known = heard.value or []
        slices = views.slices_of(known, fleet.value)
        return views.worker_page(known, slices, group=group, offset=offset, limit=limit) | views.news(heard)


async def _launch(controllers: Controllers, launched: Launched) -> dict[str, Any]:
    settings = await controllers.settings(launched.conn_id)
    dashboard_url = settings.value.dashboard_url if settings.value is not None else None
    return views.launch(launched, await controllers.jobs(launched.conn_id, launched.job_ids), dashboard_url)


async def _check_connection(controllers: Controllers, user: Any, conn_id: str) -> None:
    """Else anybody could point the API server at any connection."""
    if conn_id not in await controllers.in_thread(partial(launches.connections, user)):
        raise HTTPException(404, "no job that you may see uses this connection")


def _one_launch(dag_id: str, run_id: str, task_id: str, map_index: str = "-1") -> Launched:
    # Airflow leaves the placeholder as it is for a task that is not mapped.
    index = int(map_index) if map_index.lstrip("-").isdecimal() else -1
    # `~` means "all DAGs" to Airflow's check, which then lets everybody pass.
    found = launches.one(dag_id, run_id, task_id, index) if dag_id != "~" else None
    if found is None:
        raise HTTPException(404, "this task instance has launched no job")
    return found


LaunchedDep = Annotated[Launched, Depends(_one_launch)]
