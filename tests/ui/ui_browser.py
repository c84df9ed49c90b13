"""The browser: the system's own Chromium, driven by Playwright."""

import os
import shutil
from pathlib import Path

import pytest

SHOTS = Path(__file__).parents[2] / ".ui"
"""Where screenshots go; git ignores it."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
HOW = (
    "No browser: install Chromium (Debian: apt-get install chromium; Google Chrome will do as well), "
    "or name its program in FRAY_AIRFLOW_BROWSER."
)
ARGUMENTS = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def browser():
    """Without one the tests that need it are skipped, and fail where FRAY_AIRFLOW_REQUIRE_BROWSER is set."""
    program = find_browser()
    if program is None:
        (pytest.fail if os.environ.get("FRAY_AIRFLOW_REQUIRE_BROWSER") else pytest.skip)(HOW)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, chromium_sandbox=False, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, airflow):
    """Logged in as an admin. Errors of scripts, dialogs and requests to other hosts fail the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.add_cookies([{"name": "_token", "value": airflow.token(), "url": airflow.url}])
    page = context.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: faults.append(request.url) if _foreign(request.url, airflow.url) else None)
    yield page
    context.close()
    assert not faults


def find_browser():
    return os.environ.get("FRAY_AIRFLOW_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


def shoot(page, name):
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def _foreign(url, own):
    return url.startswith("http") and not url.startswith(own)
