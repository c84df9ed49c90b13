"""Operators."""

from fray_airflow.operators.submit_job import IrisSubmitJobOperator

__all__ = ["IrisSubmitJobOperator"]
