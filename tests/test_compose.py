"""`docker-compose.yml` as far as it can be checked without an engine.

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

ROOT = Path(__file__).parent.parent
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
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+(-[\w.]+)?", SERVICES[name]["image"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", SERVICES)
def test_the_checkout_is_mounted_read_only(name: str) -> None:
    """Only named volumes, which are declared, can be written to."""
    for volume in SERVICES[name]["volumes"]:
        source, _target, *mode = volume.split(":")
        assert mode == ["ro"] if source.startswith(".") else source in COMPOSE["volumes"]


def test_airflow_reaches_iris_at_the_port_it_listens_on() -> None:
    connection = json.loads(SERVICES["airflow"]["environment"]["AIRFLOW_CONN_IRIS_DEFAULT"])
    command = SERVICES["iris"]["command"]
    assert connection["host"] == "grpc://iris"
    assert str(connection["port"]) == command[command.index("--port") + 1]


def test_no_secret_is_in_the_file() -> None:
    """Whatever looks like one would be committed, and then be the same on every machine."""
    names = [name for service in SERVICES.values() for name in service.get("environment", {})]
    assert not [name for name in names if re.search("PASSWORD|SECRET|TOKEN|FERNET|_KEY", name)]
