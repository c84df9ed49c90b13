"""Enums of the wire: numbers of a newer server are carried."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.states import JobState, PriorityBand, TaskState

UNKNOWN = st.one_of(st.integers(13, 2**31 - 1), st.integers(-(2**31), -1))
open_enums = pytest.mark.parametrize("enum", [JobState, TaskState])


@given(UNKNOWN, st.sampled_from([JobState, TaskState]))
def test_an_unknown_number_is_a_member_of_its_own(number, enum):
    state = enum(number)
    assert state is enum(number)
    assert (int(state), str(state), f"{state}", state.name) == (number, *[f"UNKNOWN({number})"] * 3)
    assert not state.finished
    assert state not in list(enum)


@given(UNKNOWN, st.sampled_from([JobState, TaskState]))
def test_an_unknown_state_survives_pickle_and_copy(number, enum):
    state = enum(number)
    assert pickle.loads(pickle.dumps(state)) is state
    assert copy.copy(state) is copy.deepcopy(state) is state


@open_enums
@pytest.mark.parametrize("bad", ["RUNNING", None, 1.5])
def test_what_is_no_number_is_no_state(enum, bad):
    with pytest.raises(ValueError, match="is not a valid"):
        enum(bad)


def test_ends_of_a_job():
    assert [state.name for state in JobState if state.finished] == [
        "SUCCEEDED",
        "FAILED",
        "KILLED",
        "WORKER_FAILED",
        "UNSCHEDULABLE",
    ]


def test_a_task_that_is_assigned_or_missing_goes_on():
    going = {state.name for state in TaskState if not state.finished}
    assert going == {"UNSPECIFIED", "PENDING", "BUILDING", "RUNNING", "ASSIGNED", "MISSING"}


@given(st.sampled_from(list(PriorityBand)))
def test_a_band_is_found_by_member_number_and_name_in_any_case(band):
    for spelling in (band, int(band), band.name, band.name.lower(), f" {band.name.title()} "):
        assert PriorityBand.parse(spelling) is band


@pytest.mark.parametrize("bad", ["", "high", 5, -1, None])
def test_a_wrong_band_is_answered_with_the_list(bad):
    with pytest.raises(ValueError, match="inherit, production, interactive, batch, system"):
        PriorityBand.parse(bad)
