"""The form of an Iris connection in a real browser, and its Test button."""

import pytest
from parts import until
from ui_browser import shoot

from fray_airflow.get_provider_info import get_provider_info
from fray_airflow.local import Fleet, LocalIris

FIELDS = get_provider_info()["connection-types"][0]["conn-fields"]
TOKEN = "right-token"


@pytest.fixture(scope="module")
def guarded():
    with LocalIris(Fleet.of(cpu=1), run="script", token=TOKEN, user_id="carol") as iris:
        yield iris


@pytest.fixture
def form(page, airflow):
    page.goto(f"{airflow.url}/connections")
    page.get_by_role("button", name="Add Connection").click()
    dialog = page.locator("[role=dialog]")
    dialog.locator("[role=combobox]").first.click()
    page.keyboard.type("iris")
    page.keyboard.press("Enter")
    dialog.get_by_text("Controller", exact=True).wait_for()
    return dialog


def open_extras(form):
    """The form is drawn anew when the type is chosen, and a click may come before that."""
    transport = form.locator("label", has_text="Transport")

    def opened():
        if not transport.is_visible():
            form.get_by_role("button", name="Extra Fields", exact=True).click()
            form.page.wait_for_timeout(500)
        return transport.is_visible()

    until(opened, 20, "the extra fields")


def test_the_form_has_iris_words_and_every_field(page, form):
    """Controller, user and token; what else a connection may say under Extra Fields. Secrets are masked."""
    for label in ("Controller", "User", "Token", "Port"):
        assert form.get_by_text(label, exact=True).count() == 1
    assert form.get_by_text("Schema", exact=True).count() == 0
    assert form.locator("input[name=password]").get_attribute("type") == "password"
    open_extras(form)
    shoot(page, "form")
    for name, field in FIELDS.items():
        assert form.get_by_text(field["label"], exact=True).count() == 1, name
    assert form.locator("[name=element_proxy_authorization]").get_attribute("type") == "password"
    assert "null" not in form.inner_text()


def test_a_saved_connection_is_tested_with_one_click(page, airflow, form, guarded):
    """The answer says who we are, where, over which transport, and how fast; the token is not in it."""
    host, _, port = guarded.url.removeprefix("http://").partition(":")
    form.locator("input[name=connection_id]").fill("iris_form")
    form.locator("input[name=host]").fill(host)
    form.locator("input[name=port]").fill(port)
    form.locator("input[name=login]").fill("me")
    form.locator("input[name=password]").fill(TOKEN)
    open_extras(form)
    form.locator("[name=element_dashboard_url]").fill("https://iris.example.com")
    form.locator("[name=element_gpu_gang_level]").fill("rack")
    form.get_by_role("button", name="Save").click()
    row = page.locator("tr", has_text="iris_form")
    row.get_by_role("button", name="Test Connection").click()
    said = page.get_by_text("we are carol")
    said.wait_for()
    text = said.inner_text()
    assert all(part in text for part in (f"{host}:{port}", "over connect", " ms")), text
    assert TOKEN not in text
    shoot(page, "tested")
    with airflow.client("admin") as client:
        extra = client.get("/api/v2/connections/iris_form").json()["extra"]
        assert client.delete("/api/v2/connections/iris_form").status_code == 204
    assert '"dashboard_url": "https://iris.example.com"' in extra
