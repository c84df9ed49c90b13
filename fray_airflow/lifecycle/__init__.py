"""What to do next with a launch, given what was seen: the pure heart of the provider.

`step(plan, seen, now)` returns one action; a driver carries it out, and `learn(seen, action, reply, now)` takes the
reply. The sync operator and the async trigger are two drivers of this one machine, so both behave alike. No I/O, no
clock, no Airflow.
"""

from fray_airflow.lifecycle.actions import (
    Action,
    Finish,
    LookUp,
    ReadBands,
    ReadLogs,
    ReadResult,
    ReadStatus,
    ReadTail,
    ReadTasks,
    ReadWorkers,
    Submit,
    Terminate,
    Wait,
)
from fray_airflow.lifecycle.conversation import Conversation
from fray_airflow.lifecycle.learn import learn
from fray_airflow.lifecycle.log_view import LogOptions
from fray_airflow.lifecycle.plan import Plan, PlannedJob
from fray_airflow.lifecycle.rounds import ROUND_ENV, Round
from fray_airflow.lifecycle.seen import Seen, Stop
from fray_airflow.lifecycle.step import step
from fray_airflow.lifecycle.story import story

__all__ = [
    "Action",
    "Conversation",
    "Finish",
    "LogOptions",
    "LookUp",
    "ROUND_ENV",
    "Plan",
    "PlannedJob",
    "ReadLogs",
    "ReadResult",
    "ReadStatus",
    "ReadTail",
    "ReadTasks",
    "ReadWorkers",
    "ReadBands",
    "Round",
    "Seen",
    "Stop",
    "Submit",
    "Terminate",
    "Wait",
    "step",
    "learn",
    "story",
]
