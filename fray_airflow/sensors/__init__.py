"""Sensors. None of them ever cancels a job."""

from fray_airflow.sensors.placement import IrisPlacementSensor

__all__ = ["IrisPlacementSensor"]
