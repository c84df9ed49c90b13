"""Errors travel: between processes as pickles, between trigger and task as JSON."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest

from fray_airflow import errors
from fray_airflow.errors import InvalidSpecError, IrisError

FACTS = {"job_id": "/me/job", "state": "FAILED", "exit_code": 3, "pending_reason": "no room", "code": "internal"}
CLASSES = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.FrayError)]
IRIS_CLASSES = [cls for cls in CLASSES if issubclass(cls, IrisError)]
every_iris_class = pytest.mark.parametrize("cls", IRIS_CLASSES)
TRAVELS = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "pickle 2": lambda error: pickle.loads(pickle.dumps(error, protocol=2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "twice": lambda error: pickle.loads(pickle.dumps(copy.deepcopy(error))),
}
travelling = pytest.mark.parametrize("travel", TRAVELS.values(), ids=TRAVELS)


@every_iris_class
@travelling
def test_an_error_keeps_class_message_facts_and_notes(cls, travel):
    error = cls("it broke", **FACTS)
    error.add_note("seen at noon")
    again = travel(error)
    assert type(again) is cls
    assert (str(again), again.message, again.facts(), again.__notes__) == (
        "it broke",
        "it broke",
        FACTS,
        ["seen at noon"],
    )


@travelling
def test_an_invalid_spec_keeps_subject_and_faults(travel):
    error = travel(InvalidSpecError("ResourceConfig", iter(["cpu is bad", "ram is bad"])))
    assert (error.subject, error.faults) == ("ResourceConfig", ("cpu is bad", "ram is bad"))
    assert str(error) == "ResourceConfig: 2 faults\n  - cpu is bad\n  - ram is bad"


def test_one_fault_is_told_on_one_line():
    assert str(InvalidSpecError("ResourceConfig", ["cpu is bad"])) == "ResourceConfig: cpu is bad"


def test_an_invalid_spec_is_a_value_error():
    assert issubclass(InvalidSpecError, ValueError)


@every_iris_class
def test_facts_that_are_not_known_are_empty(cls):
    assert cls("x").facts() == {"job_id": "", "state": "", "exit_code": None, "pending_reason": "", "code": ""}


@every_iris_class
def test_an_error_goes_through_json_whole(cls):
    again = IrisError.from_json(json.loads(json.dumps(cls("it broke", **FACTS).to_json())))
    assert (type(again), again.message, again.facts()) == (cls, "it broke", FACTS)


@pytest.mark.parametrize("kind", ["ErrorOfTomorrow", "InvalidSpecError", "Any", "__name__"])
def test_json_of_a_class_that_is_not_known_is_an_iris_error(kind):
    error = IrisError.from_json({"kind": kind, "message": "m", "job_id": "/a/b", "new_fact": 1})
    assert (type(error), error.message, error.job_id) == (IrisError, "m", "/a/b")


@every_iris_class
def test_a_subclass_elsewhere_is_written_as_the_class_of_the_tree(cls):
    class Both(cls):
        pass

    assert Both("m").to_json()["kind"] == cls.__name__
