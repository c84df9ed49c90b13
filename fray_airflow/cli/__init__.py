"""`fray-airflow`: explain a job before it runs, look at jobs, check a connection. See docs/cli.md."""

from fray_airflow.cli.main import main

__all__ = ["main"]
