"""Triggers: watching without a worker. Their class paths never move, since deferred tasks are stored under them."""

from fray_airflow.triggers.capacity import IrisCapacityTrigger
from fray_airflow.triggers.job import IrisJobTrigger
from fray_airflow.triggers.job_state import IrisJobStateTrigger
from fray_airflow.triggers.placement import IrisPlacementTrigger

__all__ = ["IrisCapacityTrigger", "IrisJobStateTrigger", "IrisJobTrigger", "IrisPlacementTrigger"]
