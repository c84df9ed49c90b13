"""Names of launches."""

from __future__ import annotations

import re
from dataclasses import astuple, fields, replace

from hypothesis import assume, given
from hypothesis import strategies as st

from fray_airflow.identity import LaunchIdentity, same_place

NASTY = [
    "",
    " ",
    "a/b",
    "a\nb",
    "A",
    "a",
    "ß",
    "İ",
    "é",
    "e\u0301",
    "１２",
    "12",
    "-",
    ".",
    "..",
    "__",
    "a" * 300,
    "\ud800",
]
TEXT = st.one_of(st.sampled_from(NASTY), st.text(max_size=30))
IDENTITIES = st.builds(
    LaunchIdentity,
    deployment=TEXT,
    user=TEXT,
    dag_id=TEXT,
    run_id=TEXT,
    task_id=TEXT,
    map_index=st.integers(-1, 10_000),
    try_number=st.integers(0, 10_000),
    run_start=TEXT,
)
SIMPLE = LaunchIdentity("prod", "me", "train", "manual__2026-01-01T00:00:00+00:00", "fit", -1, 1, "2026-01-01")
WHERE = {"rung": st.integers(0, 99), "slice": st.integers(0, 9999)}


@given(IDENTITIES, st.fixed_dictionaries(WHERE))
def test_a_name_is_one_that_every_backend_takes(identity, where):
    name = identity.job_name(**where)
    assert re.fullmatch(r"[a-z0-9._-]{1,63}", name)
    assert not name.isdigit()
    assert re.fullmatch(r"[a-z0-9_]", name[0])
    assert re.fullmatch(r"[a-z0-9]", name[-1])


@given(IDENTITIES, st.fixed_dictionaries(WHERE))
def test_equal_identities_have_equal_names_and_tokens(identity, where):
    again = LaunchIdentity(*astuple(identity))
    assert (again.job_name(**where), again.token()) == (identity.job_name(**where), identity.token())


PLACE = ["deployment", "user", "dag_id", "run_id", "task_id", "map_index"]


@given(IDENTITIES, st.data())
def test_any_other_task_instance_has_another_name_and_place(identity, data):
    field = data.draw(st.sampled_from(PLACE))
    value = data.draw(st.integers(-1, 10_000) if field == "map_index" else TEXT)
    assume(value != getattr(identity, field))
    other = replace(identity, **{field: value})
    assert other.job_name().lower() != identity.job_name().lower()
    assert not same_place(other.token(), identity.token())


@given(TEXT, TEXT, TEXT)
def test_texts_that_join_to_the_same_are_told_apart(first, second, third):
    one = replace(SIMPLE, dag_id=first + second, task_id=third)
    two = replace(SIMPLE, dag_id=first, task_id=second + third)
    assume(one != two)
    assert one.job_name() != two.job_name()


def test_ids_that_differ_only_in_case_have_different_names_even_for_a_store_that_ignores_case():
    names = {replace(SIMPLE, dag_id=dag, task_id=task).job_name() for dag in ("Ab", "aB", "ab") for task in ("T", "t")}
    assert len({name.lower() for name in names}) == 6


@given(IDENTITIES, st.integers(0, 10_000))
def test_another_try_has_another_name_and_token_at_the_same_place(identity, try_number):
    assume(try_number != identity.try_number)
    other = identity.of_try(try_number)
    assert other == replace(identity, try_number=try_number)
    assert other.job_name() != identity.job_name()
    assert other.token() != identity.token()
    assert same_place(other.token(), identity.token())


@given(IDENTITIES, TEXT)
def test_a_run_that_was_deleted_and_made_again_has_the_name_but_not_the_token(identity, run_start):
    assume(run_start != identity.run_start)
    other = replace(identity, run_start=run_start)
    assert other.job_name() == identity.job_name()
    assert other.token() != identity.token()
    assert same_place(other.token(), identity.token())


@given(IDENTITIES, st.lists(st.tuples(*WHERE.values()), min_size=2, max_size=8, unique=True))
def test_rungs_and_slices_have_names_of_their_own(identity, places):
    assert len({identity.job_name(*place) for place in places}) == len(places)


def test_names_are_durable_state():
    """Changing how names are made loses the jobs that run while Airflow is upgraded."""
    assert SIMPLE.job_name() == "train-fit-13d5d485c1e4-t1"
    assert SIMPLE.job_name(rung=1, slice=2) == "train-fit-13d5d485c1e4-t1-r1-s2"
    assert SIMPLE.job_id() == "/me/train-fit-13d5d485c1e4-t1"
    assert SIMPLE.token() == "13d5d485c1e4.3b30bf51faea"
    assert [field.name for field in fields(LaunchIdentity)][-1] == "run_start"


@given(TEXT, TEXT)
def test_only_tokens_with_a_place_are_of_the_same_place(one, other):
    place = one.partition(".")[0]
    assert same_place(one, other) == (place != "" and other.partition(".")[0] == place)
