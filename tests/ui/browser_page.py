"""The Iris page in a real browser, in a real Airflow. Screenshots of what was tested are in .ui/."""

import time

import pytest
from parts import until
from ui_browser import shoot

TASK = "dags/training/runs/shown/tasks"
LAUNCH = {"dag_id": "training", "run_id": "shown", "map_index": "-1"}
GRID_SECONDS = 2


@pytest.fixture(scope="module")
def jobs(airflow):
    """All five jobs of the DAG are there, and one has failed."""

    def states():
        with airflow.client("admin") as client:
            rows = client.get("/fray-airflow/api/jobs", params={"dag_contains": "training"}).json()["launches"]
        return sorted(row["jobs"][0]["state"] or "" for row in rows)

    until(lambda: states() == ["FAILED", "PENDING", "RUNNING", "RUNNING", "SUCCEEDED"], 180, "five jobs")


@pytest.fixture
def page(page, jobs):
    return page


def frame(page):
    frame = page.frame_locator("iframe[title='Iris']")
    frame.locator("body[data-ready='1']").wait_for()
    return frame


def open_page(page, airflow):
    page.goto(f"{airflow.url}/plugin/iris")
    return frame(page)


def row(shown, task):
    return shown.locator("tr").filter(has=shown.get_by_role("link", name=task, exact=True))


def test_airflow_has_a_menu_entry_for_the_page(page, airflow):
    """The page is one click from Airflow's start."""
    page.goto(airflow.url)
    page.get_by_role("link", name="Iris").first.click()
    frame(page).get_by_role("link", name="Jobs", exact=True).wait_for()


def test_jobs_of_every_kind_are_listed_with_why_they_wait_or_failed(page, airflow):
    """Running, pending, failed, succeeded; each with its replicas and its times."""
    shown = open_page(page, airflow)
    for task, words in {
        "train": ("running", "2 running", "ran "),
        "sweep": ("pending", "1 pending", "queued "),
        "evaluate": ("failed", "1 failed"),
        "tokenise": ("succeeded", "1 succeeded"),
        "pretrain": ("running", "1,024 running"),
    }.items():
        text = row(shown, task).inner_text()
        assert all(word in text for word in words), (task, text)


def test_the_list_can_be_narrowed_to_a_dag(page, airflow):
    """By a part of its id."""
    shown = open_page(page, airflow)
    shown.get_by_role("link", name="hidden").wait_for()
    shown.get_by_label("DAG").fill("TRAIN")
    shown.get_by_role("link", name="hidden").wait_for(state="detached")
    assert shown.locator("tbody tr").count() == 5
    shoot(page, "jobs")
    shown.get_by_label("DAG").fill("nothing like it")
    shown.get_by_role("heading", name="No jobs").wait_for()


def test_a_thousand_replicas_are_drawn_within_two_seconds(page, airflow):
    """From the click to the last cell."""
    shown = open_page(page, airflow)
    shown.get_by_role("link", name="pretrain").click()
    started = time.monotonic()
    shown.locator("canvas[data-drawn='1024']").wait_for()
    seconds = time.monotonic() - started
    print(f"1,024 replicas in {seconds:.2f} s")
    shoot(page, "replicas")
    assert seconds < GRID_SECONDS


def test_the_grid_is_worked_by_keys_and_says_where_a_replica_runs(page, airflow):
    """The worker and the slice of the chosen one, and the same in the table."""
    shown = open_page(page, airflow)
    shown.get_by_role("link", name="train", exact=True).click()
    shown.locator("canvas[data-drawn='2']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "Replica 1" in shown.locator(".detail").inner_text()
    assert "worker-iris-tpu-v5p-16-" in shown.locator(".detail").inner_text()
    assert "Replica 1, running" in shown.locator("#spoken").inner_text()
    shown.get_by_text("As a table").click()
    assert shown.locator("details details tbody tr").count() == 2


def test_texts_of_others_stay_texts(page, airflow):
    """An error that looks like markup is shown as it is; nothing of it becomes an element."""
    shown = open_page(page, airflow)
    shown.get_by_role("link", name="evaluate").click()
    shown.locator("pre.reason").first.wait_for()
    assert shown.locator("main img, main script, main b").count() == 0


def test_links_lead_to_the_task_and_to_iris(page, airflow):
    """Out of the frame, and without loading Airflow anew; Iris opens in a window of its own."""
    shown = open_page(page, airflow)
    link = row(shown, "train").get_by_role("link", name="Iris ↗")
    assert link.get_attribute("href").startswith("https://iris.example.com/#/job/%2Fairflow%2F")
    row(shown, "train").get_by_role("link", name="Task", exact=True).click()
    page.wait_for_url(f"**/{TASK}/train**")


def test_the_tab_of_a_task_instance_shows_its_job(page, airflow):
    """And nobody else's."""
    page.goto(f"{airflow.url}/{TASK}/sweep/plugin/iris-job")
    shown = frame(page)
    shown.get_by_text("Why it waits").wait_for()
    assert shown.locator("details.card").count() == 1
    assert "sweep" in shown.locator("details.card > summary").inner_text()
    shoot(page, "task")


def test_the_tab_of_a_task_without_a_job_says_so(page, airflow):
    """Airflow shows the tab on every task."""
    page.goto(f"{airflow.url}/{TASK}/publish/plugin/iris-job")
    frame(page).get_by_text("No Iris job for this task").wait_for()


def test_a_link_from_outside_opens_one_launch(page, airflow):
    """`plugin/iris?dag_id=...` leads to it."""
    page.goto(f"{airflow.url}/plugin/iris?dag_id=training&run_id=shown&task_id=train")
    frame(page).get_by_role("heading", name="train").wait_for()


def test_the_cluster_view_counts_slices_and_lists_workers(page, airflow):
    """Busy and free, by group."""
    shown = open_page(page, airflow)
    shown.get_by_role("link", name="Cluster").click()
    group = shown.locator("section.card", has_text="tpu_v5p_8192")
    group.get_by_text("1 busy").wait_for()
    assert "1 free" in group.inner_text()
    shown.get_by_label("Group").select_option("tpu_v5p_16")
    until(lambda: shown.locator("tbody tr").count() == 6, 10, "three slices of two workers")
    shoot(page, "cluster")


def test_the_page_follows_the_theme_of_airflow(page, airflow):
    """Without loading anything."""
    shown = open_page(page, airflow)
    light = shown.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    page.evaluate("document.documentElement.className = 'dark'")
    shown.locator(":root[data-theme='dark']").wait_for()
    assert shown.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") != light
    shoot(page, "dark")


def test_nothing_is_cut_off_on_a_small_screen(page, airflow):
    """What is wider scrolls in its own box."""
    page.set_viewport_size({"width": 420, "height": 800})
    page.goto(f"{airflow.url}/fray-airflow/page")
    page.locator("body[data-ready='1']").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    shoot(page, "small")


def test_without_a_session_there_is_nothing(airflow, jobs):
    """Airflow mounts the page without a check of its own; the page has one on every route."""
    paths = ["page", "static/iris.js", "api/jobs", "api/connections", "api/cluster?conn_id=iris_default"]
    with airflow.client() as client:
        for path in [*paths, "api/launch?dag_id=training&run_id=shown&task_id=train", "docs", "openapi.json"]:
            assert client.get(f"/fray-airflow/{path}").status_code in (401, 404), path
        assert client.get("/fray-airflow/api/jobs").status_code == 401


def test_a_user_sees_the_jobs_of_readable_dags_only(airflow, jobs):
    """Who may not read the DAG gets 403 for its launch and sees it in no list; without the right on plugins: none."""
    airflow.start_guarded()
    hidden = {"dag_id": "secret", "run_id": "shown", "task_id": "hidden"}
    with airflow.client("admin", guarded=True) as admin, airflow.client("vera", guarded=True) as vera:
        path = "/fray-airflow/api/launch"
        until(lambda: admin.get(path, params=hidden).status_code == 200, 60, "the job of the hidden DAG")
        (job,) = admin.get(path, params=hidden).json()["jobs"]
        assert vera.get(path, params=hidden).status_code == 403
        replicas = {**hidden, "job_id": job["id"]}
        assert vera.get("/fray-airflow/api/replicas", params=replicas).status_code == 403
        # The job of one DAG cannot be had under the name of another.
        other = {**replicas, "dag_id": "training", "task_id": "train"}
        assert vera.get("/fray-airflow/api/replicas", params=other).status_code == 404
        assert vera.get(path, params={**hidden, "dag_id": "~"}).status_code == 404
        assert _dags(vera) == {"training"}
        assert _dags(admin) == {"training", "secret"}
        assert vera.get("/fray-airflow/api/cluster", params={"conn_id": "other"}).status_code == 404
    with airflow.client("uma", guarded=True) as uma:
        assert uma.get("/fray-airflow/api/jobs").status_code == 403


def _dags(client):
    return {row["dag_id"] for row in client.get("/fray-airflow/api/jobs").json()["launches"]}


def test_a_controller_that_is_away_does_not_hold_up_airflow(page, airflow, iris):
    """The page says what is wrong and from when its figures are; Airflow's own API stays quick meanwhile."""
    shown = open_page(page, airflow)
    iris.away(400)
    shown.get_by_text("Iris does not answer").first.wait_for(timeout=30_000)
    assert "What you see is from" in shown.locator(".notice").first.inner_text()
    assert row(shown, "train").count() == 1
    shoot(page, "away")
    with airflow.client("admin") as client:
        started = time.monotonic()
        client.get("/api/v2/version").raise_for_status()
        assert time.monotonic() - started < 2


def test_an_api_server_that_is_away_is_named(page, airflow):
    """The page keeps trying."""
    shown = open_page(page, airflow)
    page.route("**/fray-airflow/api/**", lambda route: route.abort())
    shown.get_by_role("button", name="Refresh").click()
    shown.get_by_text("Airflow does not answer").wait_for()


def test_an_ended_session_is_named(page, airflow):
    """Instead of a bare 401."""
    shown = open_page(page, airflow)
    page.route("**/fray-airflow/api/**", lambda route: route.fulfill(status=401, json={"detail": "x"}))
    shown.get_by_role("button", name="Refresh").click()
    shown.get_by_text("Your session has ended").wait_for()
