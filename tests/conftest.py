"""Airflow reads its configuration when it is imported, so its throw-away home is set before any test module is."""

import os
import secrets
import tempfile
from pathlib import Path

from fray_airflow.testing.airflow import airflow_environment

os.environ.update(airflow_environment(Path(tempfile.mkdtemp(prefix="fray-airflow-test-"))))
# Airflow would make one of 22 bytes, of which PyJWT warns, and warnings are errors here.
os.environ["AIRFLOW__API_AUTH__JWT_SECRET"] = secrets.token_hex(32)
