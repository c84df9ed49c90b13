"""Operators."""

from fray_airflow.operators.per_rung import per_rung
from fray_airflow.operators.submit_job import IrisSubmitJobOperator

__all__ = ["IrisSubmitJobOperator", "per_rung"]
