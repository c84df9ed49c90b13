"""A sensor run without a database, in each of its modes, as Airflow's task runner and triggerer run it."""

import asyncio
import json
import time
from datetime import UTC, datetime
from functools import partial
from importlib import import_module

from airflow.sdk import DAG
from airflow.sdk.bases.operator import TriggerFailureReason
from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferred

from fray_airflow.testing.operator import TaskInstance, _as_task_runner, _context

TRIGGER_FAILED = "__fail__"
MODES = ("poke", "reschedule", "deferrable")
POKE_SECONDS = 0.1


class SensorInstance(TaskInstance):
    """Keeps what Airflow keeps of a sensor between two reschedules."""

    first_reschedule = None

    def get_first_reschedule_date(self, context):
        return self.first_reschedule


def make_sensor(kind, mode, **arguments):
    if mode == "deferrable":
        arguments["deferrable"] = True
    else:
        arguments["mode"] = mode
    with DAG("sensing", schedule=None):
        return kind(**{"task_id": "wait", "poke_interval": POKE_SECONDS, "timeout": 30, **arguments})


def run_sensor(make):
    """What the sensor returns, or raises. `make` makes it, again for each turn: a worker keeps nothing."""
    ti = SensorInstance("sensing", "run-1", "wait")
    while True:
        began = datetime.now(UTC)
        sensor = make()
        context = _context(sensor, ti, None, began)
        sensor.render_template_fields(context)
        try:
            return _as_task_runner(sensor, sensor.execute, context)
        except AirflowRescheduleException as later:
            ti.first_reschedule = ti.first_reschedule or began
            time.sleep(max(0, (later.reschedule_date - datetime.now(UTC)).total_seconds()))
        except TaskDeferred as deferral:
            method, arguments = asyncio.run(triggered(deferral))
            sensor = make()
            sensor.render_template_fields(context)
            return _as_task_runner(sensor, partial(resumed, sensor, method, arguments), context)


def resumed(sensor, method, arguments, context):
    return sensor.resume_execution(method, arguments, context)


async def triggered(deferral):
    """The method and the arguments with which a deferred task is resumed."""
    path, arguments = deferral.trigger.serialize()
    module, _, name = path.rpartition(".")
    # Through the database and back, with an argument of a later version.
    trigger = getattr(import_module(module), name)(**json.loads(json.dumps({**arguments, "later": 1})))
    events = trigger.run()
    try:
        event = await asyncio.wait_for(anext(events), deferral.timeout.total_seconds())
    except TimeoutError:
        return TRIGGER_FAILED, {"error": TriggerFailureReason.TRIGGER_TIMEOUT}
    finally:
        await events.aclose()
    return deferral.method_name, {"event": json.loads(json.dumps(event.payload))}
