"""The hook against local Irises: clients, the Test button, and what the provider tells Airflow of its connection."""

import pytest
from airflow.sdk.exceptions import AirflowFailException

from fray_airflow.get_provider_info import get_provider_info
from fray_airflow.hooks import IrisHook
from fray_airflow.hooks.connection import EXTRAS
from fray_airflow.local import Fleet, LocalIris


@pytest.fixture
def guarded():
    with LocalIris(Fleet.of(cpu=1), run="script", token="right", user_id="carol") as iris:
        yield iris


def test_the_test_button_says_who_where_and_how_fast(connect, guarded):
    """Success names user, role, address and transport."""
    connect(guarded.url, password="right")
    good, text = IrisHook().test_connection()
    assert good
    assert all(part in text for part in ("carol", "user", "connect", " ms", guarded.url.removeprefix("http://")))


def test_the_test_button_says_what_is_wrong_without_the_token(connect, guarded):
    """A refused token is named as such and not shown."""
    connect(guarded.url, password="wrong-secret")
    good, text = IrisHook().test_connection()
    assert not good
    assert "unauthenticated" in text
    assert "wrong-secret" not in text


def test_a_grpc_client_at_a_connect_port_is_told_so(connect, guarded):
    """The first call names the transport to set."""
    connect(guarded.url.replace("http://", "grpc://"), password="right")
    good, text = IrisHook().test_connection()
    assert not good
    assert "set transport=connect" in text


def test_a_connect_client_at_a_grpc_port_is_told_so(connect, guarded):
    """And the other way round."""
    connect(guarded.target.replace("grpc://", "http://"), password="right")
    good, text = IrisHook().test_connection()
    assert not good
    assert "transport=grpc" in text


def test_text_extras_of_a_uri_mean_what_they_say(monkeypatch, guarded):
    """ "false" is false: the client speaks without TLS."""
    address = guarded.url.removeprefix("http://")
    monkeypatch.setenv("AIRFLOW_CONN_IRIS_DEFAULT", f"iris://me:right@{address}/?transport=connect&tls=false&timeout=7")
    with IrisHook().get_conn() as client:
        assert client.whoami().user_id == "carol"


def test_a_faulty_connection_is_named_with_its_extras(connect):
    """One error has every fault and the known names."""
    connect("iris.example.com", extra={"transprot": "grpc", "timeout": "-1"})
    with pytest.raises(AirflowFailException) as caught:
        IrisHook().get_conn()
    assert all(part in str(caught.value) for part in ("'iris_default'", "transprot", "transport", "timeout"))


async def test_the_triggerer_gets_the_same_client(connect, guarded):
    """Awaitable, from the same connection."""
    connect(guarded.target, password="right")
    async with await IrisHook().get_async_conn() as client:
        assert (await client.whoami()).user_id == "carol"


def test_the_form_offers_only_what_the_parser_reads():
    """A field of the form that nothing reads would mislead; headers are for JSON alone."""
    (connection,) = get_provider_info()["connection-types"]
    assert set(connection["conn-fields"]) == set(EXTRAS) - {"headers"}
