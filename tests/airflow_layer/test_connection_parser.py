"""What a connection of type `iris` says."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fray_airflow.errors import InvalidSpecError
from fray_airflow.hooks.connection import EXTRAS, parse_connection


@dataclass
class Conn:
    host: str | None = "iris.example"
    port: int | None = None
    login: str | None = None
    password: str | None = None
    extra: str | None = None
    conn_id: str = "iris_default"


def with_extras(**extras):
    return Conn(extra=json.dumps(extras))


def test_a_host_is_enough():
    settings_ = parse_connection(Conn())
    assert (settings_.host, settings_.deployment, settings_.dashboard_url) == ("iris.example", None, None)
    assert settings_.arguments == {
        "port": None,
        "user": "airflow",
        "token": None,
        "headers": {},
        "where": "Iris connection 'iris_default' (iris.example)",
    }


def test_login_is_the_user_and_password_the_token():
    arguments = parse_connection(Conn(port=10000, login="me", password="hush")).arguments
    assert (arguments["port"], arguments["user"], arguments["token"]) == (10000, "me", "hush")
    assert arguments["where"] == "Iris connection 'iris_default' (iris.example:10000)"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("tls", "false", False),
        ("tls", "True", True),
        ("tls", " 1 ", True),
        ("tls", "off", False),
        ("tls", False, False),
        ("timeout", "30", 30.0),
        ("timeout", 2.5, 2.5),
        ("transport", " grpc ", "grpc"),
        ("headers", '{"x-team": "ml"}', {"x-team": "ml"}),
        ("headers", {"x-team": "ml"}, {"x-team": "ml"}),
        ("gpu_gang_level", " node ", "node"),
    ],
)
@pytest.mark.parametrize("nested", [None, "text", "object"])
def test_extras_are_read_from_text_and_from_json(name, text, expected, nested):
    """The URI form carries texts, and nested values as one JSON text under `__extra__`."""
    extras = {name: text}
    if nested:
        extras = {"__extra__": json.dumps(extras) if nested == "text" else extras}
    assert parse_connection(with_extras(**extras)).arguments[name] == expected


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_extra_is_as_good_as_none(empty):
    """A connection form sends its empty fields too."""
    settings_ = parse_connection(with_extras(**dict.fromkeys(EXTRAS, empty)))
    assert settings_.arguments.keys() == {"port", "user", "token", "headers", "where"}


def test_deployment_and_dashboard_are_not_for_the_client():
    settings_ = parse_connection(with_extras(deployment="prod", dashboard_url="https://iris"))
    assert (settings_.deployment, settings_.dashboard_url) == ("prod", "https://iris")
    assert not {"deployment", "dashboard_url"} & settings_.arguments.keys()


@pytest.mark.parametrize(
    ("value", "header"), [("abc", "Bearer abc"), ("Bearer abc", "Bearer abc"), ("Basic abc", "Basic abc")]
)
def test_a_proxy_has_a_header_of_its_own(value, header):
    settings_ = parse_connection(with_extras(proxy_authorization=value, headers={"x-team": "ml"}))
    assert settings_.arguments["headers"] == {"x-team": "ml", "proxy-authorization": header}


@pytest.mark.parametrize("extra", ["[1]", '"text"', "5", "{", '{"__extra__": "{"}', '{"__extra__": 5}', "true"])
def test_extras_that_are_no_object_are_a_fault(extra):
    with pytest.raises(InvalidSpecError, match="extra is not a JSON object"):
        parse_connection(Conn(extra=extra))


def test_one_error_names_the_connection_and_every_fault():
    extras = {"tls": "perhaps", "timeout": "-1", "headers": "x", "transport": 5, "colour": "red"}
    with pytest.raises(InvalidSpecError) as caught:
        parse_connection(Conn(host=None, extra=json.dumps(extras)))
    text = str(caught.value)
    assert text.startswith("Iris connection 'iris_default': 6 faults")
    for word in ("host is empty", "extra tls", "extra timeout", "extra headers", "extra transport", "'colour'"):
        assert word in text
    assert all(name in text for name in EXTRAS)


def test_a_gang_level_that_cannot_be_one_is_a_fault():
    """Before a job waits for it."""
    with pytest.raises(InvalidSpecError, match=r"gpu_gang_level='two words' is no name .* leafgroup"):
        parse_connection(with_extras(gpu_gang_level="two words"))


SECRET = "s3cr3t-s3cr3t"


def test_secrets_are_known_and_not_shown():
    """With their scheme and without, since a log may show either."""
    settings_ = parse_connection(
        Conn(
            password="tok-" + SECRET,
            extra=json.dumps({"headers": {"Authorization": f"Basic {SECRET}"}, "proxy_authorization": f"p-{SECRET}"}),
        )
    )
    assert SECRET not in repr(settings_)
    assert set(settings_.secrets) == {
        f"tok-{SECRET}",
        f"Basic {SECRET}",
        SECRET,
        f"Bearer p-{SECRET}",
        f"p-{SECRET}",
    }


@pytest.mark.parametrize(
    "extras",
    [
        {"headers": {"a": [SECRET]}},
        {"headers": SECRET},
        {"headers": [SECRET]},
        {"proxy_authorization": [SECRET]},
        {"proxy_authorization": {"a": SECRET}},
        {"proxy_authorization": SECRET, "tls": "perhaps"},
    ],
)
def test_a_faulty_connection_shows_no_secret(extras):
    with pytest.raises(InvalidSpecError) as caught:
        parse_connection(Conn(password=SECRET, extra=json.dumps(extras)))
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"


@settings(deadline=None)
@given(
    st.text(max_size=8)
    | st.dictionaries(
        st.sampled_from([*EXTRAS, "__extra__", "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
            max_leaves=4,
        ),
        max_size=4,
    ).map(json.dumps)
)
def test_any_extra_is_settings_or_an_error_of_ours(extra):
    try:
        settings_ = parse_connection(Conn(extra=extra))
    except InvalidSpecError:
        return
    assert isinstance(settings_.arguments["headers"], dict)
