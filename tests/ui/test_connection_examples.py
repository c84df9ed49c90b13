"""The examples in docs/connections.md."""

import re
import subprocess
from pathlib import Path

import pytest

from fray_airflow.hooks import IrisHook

DOCS = Path(__file__).parents[2] / "docs" / "connections.md"
EXPORTS = re.split(
    r"^(?=export )", re.search(r"```console\n(.*?)```", DOCS.read_text(), re.DOTALL).group(1), flags=re.MULTILINE
)[1:]


def test_there_is_one_in_json_and_one_as_a_uri():
    """Both forms that Airflow takes."""
    assert [("{" in each, "iris://" in each) for each in EXPORTS] == [(True, False), (False, True)]


@pytest.mark.parametrize("example", EXPORTS, ids=["json", "uri"])
def test_an_example_means_what_it_says(monkeypatch, example):
    """The shell sets it, Airflow reads it, and it leads to the same controller over TLS with the same token."""
    script = f'{example}\nprintf %s "$AIRFLOW_CONN_IRIS_DEFAULT"'
    text = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    monkeypatch.setenv("AIRFLOW_CONN_IRIS_DEFAULT", text)
    with IrisHook().get_conn() as client:
        assert (client.options.target.url, client.options.user) == ("https://iris.example.com:10000", "me")
        assert ("authorization", "Bearer the token") in client.options.headers
