"""Prints how each sensor ends in each situation and mode, as real sensors end on the embedded Iris.

`python tests/airflow_layer/sensor_table.py --write` puts it into docs/sensors.md, which a test compares.
"""

import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from sensor_modes import MODES, make_sensor, run_sensor

from fray_airflow import Entrypoint, JobRequest, ResourceConfig
from fray_airflow.iris import IrisClient
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.sensors import IrisCapacitySensor, IrisJobSensor, IrisPlacementSensor
from fray_airflow.testing.airflow import iris_connection

DOCUMENT = Path(__file__).parents[2] / "docs" / "sensors.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
FLEET = Fleet.of(cpu=1, tpu={"v5p-16": 1})
GANG = ResourceConfig.with_tpu("v5p-16")
WATCHED = {"job_id": "/airflow/watched"}
WANTED = {"resource_config": GANG}
LATER = Outcome.stay_pending(0.4)
ENDED = ("SUCCEEDED", "FAILED", "KILLED")


@dataclass(frozen=True)
class Scene:
    """What the one job of the cluster does, the states that it has come to before the sensor starts, its arguments."""

    outcomes: tuple
    arguments: dict = field(default_factory=lambda: WATCHED)
    since: tuple = ("PENDING", "RUNNING", *ENDED)


SCENES = {
    IrisPlacementSensor: {
        "there": Scene((Outcome.hang(),), since=("RUNNING",)),
        "later": Scene((LATER, Outcome.hang())),
        "between": Scene((LATER, Outcome.succeed())),
        "wait": Scene((Outcome.stay_pending(),)),
        "never": Scene((Outcome.kill(),), since=ENDED),
    },
    IrisJobSensor: {
        "there": Scene((Outcome.succeed(),), since=ENDED),
        "later": Scene((Outcome.succeed(seconds=0.4),)),
        "between": Scene((LATER, Outcome.succeed()), {**WATCHED, "state": "running"}),
        "wait": Scene((Outcome.hang(),)),
        "never": Scene((Outcome.fail(),), since=ENDED),
    },
    # The job is somebody else's: it has the only slice.
    IrisCapacitySensor: {
        "there": Scene((Outcome.stay_pending(),), {"resource_config": ResourceConfig.with_cpu()}),
        "later": Scene((Outcome.succeed(seconds=1.5),), WANTED, ("RUNNING",)),
        "wait": Scene((Outcome.hang(),), WANTED, ("RUNNING",)),
        "never": Scene((Outcome.hang(),), {"resource_config": ResourceConfig.with_tpu("v5p-8")}),
    },
}


@dataclass(frozen=True)
class Situation:
    """`scene` is a key of SCENES; `fault` what the controller answers to the next calls of the sensor."""

    text: str
    scene: str
    arguments: dict = field(default_factory=dict)
    fault: dict = field(default_factory=dict)


SITUATIONS = (
    Situation("it is there at once", "there"),
    Situation("it comes later", "later"),
    Situation("it comes and is over between two pokes", "between"),
    Situation("Iris is away for a while", "there", {}, {"code": "unavailable", "times": 4}),
    Situation("it does not come within `timeout`", "wait", {"timeout": 0.3}),
    Situation("... with `soft_fail`", "wait", {"timeout": 0.3, "soft_fail": True}),
    Situation("... with `never_fail`", "wait", {"timeout": 0.3, "never_fail": True}),
    Situation("it cannot come any more", "never"),
    Situation("... with `soft_fail`", "never", {"soft_fail": True}),
    Situation("... with `never_fail`", "never", {"never_fail": True}),
    Situation("Iris refuses to tell", "there", {}, {"code": "permission_denied", "times": 1}),
    Situation("... with `soft_fail`", "there", {"soft_fail": True}, {"code": "permission_denied", "times": 1}),
)


def outcome(kind, situation, mode):
    """How the sensor ends, in a few words."""
    scene = SCENES[kind][situation.scene]
    arguments = {"poke_interval": 1.5 if situation.scene == "between" else 0.1, **scene.arguments}
    with LocalIris(FLEET, run="script") as iris, IrisClient(iris.target) as client:
        os.environ["AIRFLOW_CONN_IRIS_DEFAULT"] = json.dumps(iris_connection(iris.target))
        iris.script("watched", *scene.outcomes)
        job = client.submit(JobRequest(name="watched", entrypoint=Entrypoint.from_binary("true"), resources=GANG))
        while job.state().name not in scene.since:
            pass
        if situation.fault:
            iris.fault("*", **situation.fault)
        try:
            run_sensor(lambda: make_sensor(kind, mode, **{**arguments, **situation.arguments}))
        except AirflowSkipException:
            return "skipped"
        except AirflowSensorTimeout:
            return "fails: timeout"
        except AirflowFailException:
            return "fails at once"
        return "succeeds"


def rows(kind):
    """The lines of one sensor."""
    lines = []
    for situation in (each for each in SITUATIONS if each.scene in SCENES[kind]):
        cells = [outcome(kind, situation, mode) for mode in MODES]
        lines.append(f"| `{kind.__name__}` | {situation.text} | {' | '.join(cells)} |")
    return lines


def table():
    lines = [f"| sensor | situation | {' | '.join(MODES)} |", "|---" * (len(MODES) + 2) + "|"]
    return "\n".join([*lines, *(line for kind in SCENES for line in rows(kind))]) + "\n"


def written():
    """The table in the document."""
    return re.search(f"{BEGIN}(.*){END}", DOCUMENT.read_text(), re.DOTALL)[1]


if __name__ == "__main__":
    if "--write" in sys.argv:
        text = DOCUMENT.read_text()
        DOCUMENT.write_text(text.replace(f"{BEGIN}{written()}{END}", f"{BEGIN}{table()}{END}"))
    else:
        print(table())
