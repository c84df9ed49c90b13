"""What Airflow is told of this provider. Imports nothing: Airflow reads it in every process."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    modules = [{"integration-name": "Iris"}]
    return {
        "package-name": "fray-airflow",
        "name": "Iris",
        "description": "Schedules distributed training on Iris, the cluster scheduler of Marin.",
        "versions": ["0.1.0"],
        "integrations": [
            {
                "integration-name": "Iris",
                "external-doc-url": "https://github.com/marin-community/marin",
                "tags": ["service"],
            }
        ],
        "operators": [{**modules[0], "python-modules": ["fray_airflow.operators.submit_job"]}],
        "sensors": [
            {
                **modules[0],
                "python-modules": [f"fray_airflow.sensors.{name}" for name in ("capacity", "job", "placement")],
            }
        ],
        "hooks": [{**modules[0], "python-modules": ["fray_airflow.hooks.iris"]}],
        "triggers": [{**modules[0], "python-modules": [f"fray_airflow.triggers.{name}" for name in _TRIGGERS]}],
        "task-decorators": [{"name": "iris", "class-name": "fray_airflow.decorators.iris_task"}],
        "extra-links": ["fray_airflow.links.IrisJobLink"],
        "connection-types": [
            {
                "connection-type": "iris",
                "hook-class-name": "fray_airflow.hooks.iris.IrisHook",
                "hook-name": "Iris",
                "ui-field-behaviour": _UI_FIELDS,
                "conn-fields": _CONN_FIELDS,
            }
        ],
    }


def _text(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


_TRIGGERS = ("capacity", "job", "job_state", "placement")

_UI_FIELDS: dict[str, Any] = {
    "hidden-fields": ["schema"],
    "relabeling": {"host": "Controller", "login": "User", "password": "Token"},
    "placeholders": {"host": "https://iris.example.com", "port": "10000", "login": "airflow"},
}

_CONN_FIELDS: dict[str, Any] = {
    # The form would show a null among the choices as the word: what it stands for is the default, by name.
    "transport": _text(
        "Transport",
        "What the port speaks; auto finds out. A scheme in the controller's address decides.",
        enum=["auto", "grpc", "connect"],
        default="auto",
    ),
    "tls": {
        "label": "TLS",
        "description": "Encrypt, where the controller is given without a scheme.",
        "schema": {"type": ["boolean", "null"]},
    },
    "ca": _text(
        "CA certificate", "Whom to trust for TLS: a file on the workers, or the PEM text itself.", format="multiline"
    ),
    "timeout": {
        "label": "Timeout (s)",
        "description": "For one call; if empty, 30 s, and 180 s for a submission.",
        "schema": {"type": ["number", "null"], "exclusiveMinimum": 0},
    },
    "log_target": _text("Log service", "Its address, if it is not behind the controller's port."),
    "dashboard_url": _text("Dashboard", "Where people look at jobs; the link of a task leads there."),
    "deployment": _text("Deployment", "Tells this Airflow from others that share the Iris; its base URL if empty."),
    "gpu_gang_level": _text(
        "GPU gang level",
        "The worker attribute that the hosts of a GPU gang must share; if empty, Fray's choice for the model.",
    ),
    "proxy_authorization": _text("Proxy token", "For a proxy that asks for its own.", format="password"),
}
