"""Sensors. None of them ever cancels a job."""

from fray_airflow.sensors.capacity import IrisCapacitySensor
from fray_airflow.sensors.job import IrisJobSensor
from fray_airflow.sensors.placement import IrisPlacementSensor

__all__ = ["IrisCapacitySensor", "IrisJobSensor", "IrisPlacementSensor"]
