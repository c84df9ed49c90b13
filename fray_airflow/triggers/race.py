"""A race in Airflow's scheduler that a trigger must not start."""

from __future__ import annotations

import asyncio
import time

from airflow.triggers.base import BaseTrigger

EARLIEST_EVENT_SECONDS = 12.0
"""The scheduler may hold the exit of the deferring worker in hand for two of its heartbeats (5 s each). It would take
that for the end of the task, which an early event has resumed by then, and fail it."""


async def hold_back(trigger: BaseTrigger, started: float) -> None:
    """Waits until the trigger, running since `started` (monotonic), may fire. Outside a triggerer there is no race."""
    if trigger.task_instance is not None:
        await asyncio.sleep(max(0.0, started + EARLIEST_EVENT_SECONDS - time.monotonic()))
