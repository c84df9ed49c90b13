"""The page's server without a browser: what every route asks before it answers, and how a controller is asked."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fray_airflow.hooks import IrisHook
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.plugins.page import EXTERNAL_VIEWS, FASTAPI_APPS
from fray_airflow.testing.airflow import iris_connection

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def iris():
    with LocalIris(Fleet.of(cpu=2, tpu={"v5p-16": 2}), run="script") as iris:
        iris.script("*", Outcome.hang())
        yield iris


@pytest.fixture
def connection(monkeypatch, iris):
    fields = iris_connection(iris.target, extra={"dashboard_url": "https://me:secret@iris.example.com"})
    monkeypatch.setenv("AIRFLOW_CONN_IRIS_DEFAULT", json.dumps(fields))
    return "iris_default"


def controllers():
    from fray_airflow.plugins.page.controllers import Controllers

    return Controllers()


def test_every_route_depends_on_airflows_login_and_its_right_on_plugins():
    """Airflow mounts the app without any check; one route that forgets it would be open to everybody."""
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.routing import APIRoute

    from fray_airflow.plugins.page.app import build_app

    def asked(dependant):
        return {dependant.call, *(call for each in dependant.dependencies for call in asked(each))}

    routes = build_app().routes
    assert {route.path for route in routes} >= {"/page", "/static/{name}", "/api/jobs", "/api/launch", "/api/replicas"}
    for route in routes:
        assert isinstance(route, APIRoute), f"{route.path} is open"
        assert route.methods == {"GET"}, f"{route.path} is not read-only"
        assert get_user in asked(route.dependant), f"{route.path} is open"


def test_loading_the_plugin_imports_neither_fastapi_nor_grpc():
    """Every worker and scheduler loads it."""
    code = (
        "import sys, airflow.sdk.plugins_manager\nbefore = set(sys.modules)\nimport fray_airflow.plugins\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\nprint(*sorted(new))"
    )
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=dict(os.environ))
    assert not {"fastapi", "grpc", "google", "httpx", "sqlalchemy"} & set(said.stdout.split())


def test_what_is_registered_is_what_airflow_takes():
    """One unknown destination would drop the whole plugin, and an absolute address fails below a path."""
    assert {view["destination"] for view in EXTERNAL_VIEWS} == {"nav", "task_instance"}
    assert not any(view["href"].startswith("/") for view in EXTERNAL_VIEWS)
    assert len({view["url_route"] for view in EXTERNAL_VIEWS}) == len(EXTERNAL_VIEWS)
    assert [app["url_prefix"] for app in FASTAPI_APPS] == ["/fray-airflow"]


async def test_many_who_ask_at_once_cost_one_call(iris, connection):
    """An answer is shared, and kept for a moment."""
    asked = controllers()
    await asked.workers(connection)
    before = iris.calls["ListWorkers"]
    assert before == 1
    heard = await asyncio.gather(*(asked.workers(connection) for _ in range(50)))
    assert iris.calls["ListWorkers"] == before
    assert {len(each.value) for each in heard} == {6}


async def test_a_job_is_told_with_its_replicas_and_a_link_without_secrets(iris, connection):
    """State, times and counts of the job; worker and slice of each replica."""
    from fray_airflow import Entrypoint, JobRequest, ResourceConfig
    from fray_airflow.plugins.page import views

    job = JobRequest(
        name="shown", entrypoint=Entrypoint.from_binary("true"), resources=ResourceConfig.with_tpu("v5p-16")
    )
    with IrisHook().get_conn() as client:
        handle = client.submit(job)
        while [str(task.state) for task in client.tasks(handle.job_id)] != ["RUNNING"] * 2:
            await asyncio.sleep(0.05)
    asked = controllers()
    heard = await asked.job(connection, handle.job_id)
    settings = await asked.settings(connection)
    told = views.job(handle.job_id, heard, settings.value.dashboard_url)
    assert (told["state"], told["replicas"], told["problem"]) == ("RUNNING", 2, "")
    assert told["submitted"] <= told["started"]
    assert told["url"] == "https://iris.example.com/#/job/%2Fairflow%2Fshown"
    fleet, workers = await asked.autoscaler(connection), await asked.workers(connection)
    tasks = await asked.tasks(connection, handle.job_id)
    page = views.replicas(tasks.value, views.slices_of(workers.value, fleet.value), offset=1, limit=1)
    (row,) = page["rows"]
    assert (page["total"], row["index"], row["state"]) == (2, 1, "RUNNING")
    assert row["slice"].startswith("iris-tpu-v5p-16-")
    assert row["slice"] in row["worker"]
    (group,) = [each for each in views.cluster(fleet.value, workers.value)["groups"] if each["name"] == "tpu_v5p_16"]
    assert sorted(each["state"] for each in group["slices"]) == ["busy", "free"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"host": "127.0.0.1:9"}, "unreachable"),
        ({"host": "grpc://127.0.0.1", "extra": {"transprot": "grpc"}}, "bad_connection"),
        (None, "no_connection"),
    ],
)
async def test_what_is_wrong_is_told_apart(monkeypatch, fields, problem):
    """So that the page can say what to do."""
    if fields:
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps({"conn_type": "iris", **fields}))
    heard = await controllers().workers("other")
    assert (heard.value, heard.problem) == (None, problem)


async def test_a_refused_token_is_told_apart(monkeypatch):
    """And the token is nowhere in the answer."""
    with LocalIris(Fleet.of(cpu=1), run="script", token="right") as iris:
        monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(iris_connection(iris.target, password="wrong-token")))
        heard = await controllers().workers("other")
    assert heard.problem == "unauthorised"
    assert "wrong-token" not in repr(heard)


async def test_the_last_answer_stays_while_the_controller_is_away(iris, connection):
    """With the time it is from."""
    from fray_airflow.plugins.page.recent import Recent

    now = 0.0
    recent = Recent(clock=lambda: now)

    async def good():
        return 1

    async def bad():
        raise TimeoutError

    first = await recent.ask("x", good, 2)
    now = 3.0
    second = await recent.ask("x", bad, 2)
    assert (second.value, second.at, second.problem) == (1, first.at, "unreachable")


@pytest.mark.parametrize("address", ["javascript://iris/%0aalert(1)", "data://x", ""])
def test_no_link_but_a_web_address(address):
    """A browser would run the others."""
    from fray_airflow.plugins.page import views
    from fray_airflow.plugins.page.recent import Heard

    assert views.job("/a/b", Heard(), address)["url"] is None
