"""`docker-compose.yml` as far as it can be checked without an engine; `run.py` runs its services as processes.

The schema is `compose/config/compose_spec.json` of docker-compose 1.29.2 (Apache-2.0), the last release on PyPI: the
compose specification as JSON Schema.
"""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def test_the_file_follows_the_compose_specification() -> None:
    schema = json.loads((ROOT / "tests" / "data" / "compose_spec.json").read_text())
    # It names draft 2019-09 but is written in the words of draft 7, which docker-compose itself read it with.
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_on_loopback_only(name: str) -> None:
    """Docker publishes on every interface unless told, past the host's firewall."""
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in SERVICES[name].get("ports", ()))
    assert "network_mode" not in SERVICES[name]


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_to_a_release(name: str) -> None:
    """Those that are built here too: their base, and with hashes all that is installed."""
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(-[\w.]+)?", SERVICES[name]["image"])
    if build := SERVICES[name].get("build"):
        text = (ROOT / build["dockerfile"]).read_text()
        stages = dict(re.findall(r"^FROM (\S+) AS (\S+)$", text, re.MULTILINE)[::-1])
        base = next(image for image in stages if image not in stages.values())
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+-[\w.]+", base)
        assert build["target"] in stages.values()
        installs = re.findall(r"^RUN pip install .*$", text, re.MULTILINE)
        assert all("--require-hashes" in line or "--no-deps" in line for line in installs)


def test_the_image_has_the_airflow_of_the_pins() -> None:
    base = re.search(r"apache/airflow:([\d.]+)-python([\d.]+)", (ROOT / "docker" / "Dockerfile").read_text())
    assert base
    assert f"apache-airflow=={base[1]} " in (ROOT / "requirements" / "runtime.txt").read_text()
    assert base[2] == (ROOT / ".python-version").read_text().strip()


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    if SERVICES[name]["restart"] == "no":
        assert "healthcheck" not in SERVICES[name]
    else:
        assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", SERVICES)
def test_files_of_the_checkout_are_mounted_read_only(name: str) -> None:
    """Only named volumes, which are declared, can be written to."""
    for volume in SERVICES[name].get("volumes", ()):
        source, _target, *mode = volume.split(":")
        assert mode == ["ro"] if source.startswith(".") else source in COMPOSE["volumes"]


@pytest.mark.parametrize("iris", ["iris", "iris-local"])
def test_airflow_reaches_each_iris_at_the_port_it_listens_on(iris: str) -> None:
    names = {"iris": "AIRFLOW_CONN_IRIS_DEFAULT", "iris-local": "AIRFLOW_CONN_IRIS_LOCAL"}
    connection = json.loads(SERVICES["scheduler"]["environment"][names[iris]])
    command = " ".join(SERVICES[iris]["command"])
    assert connection["host"].partition("://")[2] == iris
    assert re.search(rf"--port[ =]{connection['port']}\b", command)


def test_only_the_embedded_iris_has_a_profile() -> None:
    """Without one, all others start."""
    assert {name: service["profiles"] for name, service in SERVICES.items() if "profiles" in service} == {
        "iris-local": ["local"]
    }


def test_every_part_of_airflow_sees_the_same_environment() -> None:
    parts = [SERVICES[name] for name in ("airflow-init", "api-server", "scheduler", "dag-processor", "triggerer")]
    assert all(part["environment"] == parts[0]["environment"] for part in parts)


def test_no_secret_is_in_the_file() -> None:
    """Whatever looks like one would be committed, and then be the same on every machine."""
    names = [name for service in SERVICES.values() for name in service.get("environment", {})]
    assert not [name for name in names if re.search("PASSWORD|SECRET|TOKEN|FERNET|_KEY", name)]
