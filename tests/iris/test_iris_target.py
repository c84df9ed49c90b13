"""Addresses and client options."""

from __future__ import annotations

import contextlib
import logging
import ssl
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import IrisClient
from fray_airflow.iris.options import client_options
from fray_airflow.iris.over_connect import ConnectCarrier
from fray_airflow.iris.target import DEFAULT_PORT, Target, parse_target

HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?){0,3}", fullmatch=True)
PORTS = st.integers(1, 65535)
SECRET = "hunter2"
# Pieces that addresses are made of, in any order.
SHARDS = st.lists(
    st.one_of(
        st.text(max_size=3), st.sampled_from(["://", ":", "/", "@", "[", "]", "::1", "http", "grpcs", "host", "%", "?"])
    )
).map("".join)


@given(
    SHARDS, st.none() | st.sampled_from(["grpc", "connect", "auto", "x"]), st.none() | st.booleans(), st.none() | PORTS
)
def test_no_text_raises_anything_but_invalid_spec(text, transport, tls, port):
    with contextlib.suppress(InvalidSpecError):
        target = parse_target(text, transport=transport, tls=tls, port=port)
        assert parse_target(str(target), tls=target.tls) == target
        ConnectCarrier(Target(target.host, target.port, "connect", prefix=target.prefix)).close()


@given(HOSTS, st.none() | PORTS, st.sampled_from(["grpc", "grpcs", "http", "https", "HTTPS"]))
def test_the_scheme_decides_transport_and_tls(host, port, scheme):
    target = parse_target(f"{scheme}://{host}" + (f":{port}" if port else ""))
    assert (target.host, target.port) == (host, port or DEFAULT_PORT)
    assert target.transport == ("grpc" if scheme.startswith("grpc") else "connect")
    assert target.tls == scheme.lower().endswith("s")
    assert parse_target(str(target)) == target


@given(HOSTS, PORTS)
def test_a_bare_host_is_asked_what_it_speaks(host, port):
    assert parse_target(host) == Target(host, DEFAULT_PORT, "auto")
    assert parse_target(f"{host}:{port}") == parse_target(host, port=port) == Target(host, port, "auto")
    assert parse_target(host, transport="connect", tls=True) == Target(host, DEFAULT_PORT, "connect", tls=True)


@given(st.ip_addresses(v=6), st.none() | PORTS, st.sampled_from(["", "grpc://", "https://"]))
def test_an_ipv6_address_is_read_with_and_without_brackets(address, port, scheme):
    target = parse_target(f"{scheme}[{address}]" + (f":{port}" if port else ""))
    assert target.authority == f"[{target.host}]:{port or DEFAULT_PORT}"
    if port is None:
        assert parse_target(f"{scheme}{address}") == target
    assert parse_target(str(target)) == target


@given(st.ip_addresses(v=4), PORTS)
def test_an_ipv4_address_is_a_host(address, port):
    assert parse_target(f"{address}:{port}").authority == f"{address}:{port}"


def test_a_path_goes_in_front_of_the_methods():
    target = parse_target("https://proxy.example.com/iris/")
    assert (target.prefix, target.url) == ("/iris", "https://proxy.example.com:10000/iris")
    assert parse_target("host/").prefix == ""


@pytest.mark.parametrize(
    ("host", "loopback"), [("localhost", True), ("127.0.0.9", True), ("::1", True), ("iris", False)]
)
def test_loopback_is_known(host, loopback):
    assert parse_target(host).loopback is loopback


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ("://", {}),
        ("http://", {}),
        ("ftp://host", {}),
        ("http://https://host", {}),
        ("host:0", {}),
        ("host:65536", {}),
        ("host:-1", {}),
        ("host:http", {}),
        ("[::1", {}),
        ("1:2:3", {}),
        ("ho st", {}),
        ("host,other", {}),
        ("a..b", {}),
        ("h" * 64, {}),
        ("-host", {}),
        ("\x00", {}),
        ("höst", {}),
        ("host?x=1", {}),
        ("host#x", {}),
        ("http://host/a b", {}),
        ("grpc://host/path", {}),
        ("host", {"transport": "http"}),
        ("grpc://host", {"transport": "connect"}),
        ("http://host", {"transport": "grpc"}),
        ("http://host", {"tls": True}),
        ("grpc://host", {"tls": True}),
        (None, {}),
        (10000, {}),
    ],
)
def test_what_is_no_address_is_refused(text, options):
    with pytest.raises(InvalidSpecError, match="Iris address"):
        parse_target(text, **options)


def test_one_message_lists_every_fault():
    with pytest.raises(InvalidSpecError) as caught:
        parse_target("ftp://ho st:99999/a b", transport="telnet")
    assert len(caught.value.faults) >= 3


PLACES = ["{}:x@host", "x:{}@host", "http://x:{}@host:1", "http://x:{}@host:x", "x:{}@http://host", "http://{}@ho st"]
PLACES += ["http://x:{}@", "ftp://x:{}@host", "http://x:{}\u2100y@host", "grpc://x:{}@[::1", "x:{}@1:2:3"]


@given(st.sampled_from(PLACES), st.text(max_size=3), st.text(max_size=3))
def test_credentials_in_an_address_are_refused_and_not_shown(place, before, after):
    with pytest.raises(InvalidSpecError, match="Iris address") as caught:
        parse_target(place.format(before + SECRET + after))
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)


def test_a_token_is_a_bearer_header_that_no_repr_shows():
    options = client_options("http://localhost", token=f" {SECRET}\n", headers={"X-Proxy": SECRET})
    assert tuple(options.headers) == (("x-proxy", SECRET), ("authorization", f"Bearer {SECRET}"))
    client = IrisClient("http://localhost", token=SECRET)
    for shown in (repr(options), str(options), repr(client), repr(client.options), repr(options.headers)):
        assert SECRET not in shown


@pytest.mark.parametrize(
    "bad",
    [
        {"token": f"{SECRET}\nx"},
        {"token": f"{SECRET}\r"[:-1] + "\rx"},
        {"token": f"{SECRET}é"},
        {"token": f"{SECRET}\x00"},
        {"headers": {"a b": SECRET}},
        {"headers": {"": SECRET}},
        {"headers": {"a\n": SECRET}},
        {"headers": {"a": f"{SECRET} "}},
        {"headers": {"a": f"\n{SECRET}"}},
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(bad):
    with pytest.raises(InvalidSpecError, match="header") as caught:
        client_options("http://localhost", **bad)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), 1e300])
def test_a_wrong_timeout_is_an_invalid_spec(timeout):
    with pytest.raises(InvalidSpecError, match="timeout"):
        client_options("localhost", timeout=timeout)


@pytest.mark.parametrize("user", ["", " ", "a/b"])
def test_a_wrong_user_is_an_invalid_spec(user):
    with pytest.raises(InvalidSpecError, match="user="):
        client_options("localhost", user=user)


def test_credentials_over_plain_text_are_warned_about_once(caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        client_options("http://plain.example.com", token=SECRET)
    client_options("https://tls.example.com", token=SECRET)
    client_options("http://localhost", token=SECRET)
    client_options("http://no-token.example.com")
    (record,) = caplog.records
    assert "http://plain.example.com:10000 unencrypted" in record.getMessage()
    assert SECRET not in caplog.text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ca")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", "key.pem", "-out", "ca.pem", "-subj", "/CN=iris"]
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return folder / "ca.pem"
    pytest.skip("no openssl to make a certificate with")


def test_a_certificate_is_a_file_or_its_text_also_on_one_line(certificate):
    pem = certificate.read_text()
    for ca in (certificate, str(certificate), pem, pem.replace("\n", "\\n")):
        options = client_options("https://host", ca=ca)
        assert options.ca == pem.encode()
        context = ssl.create_default_context(cadata=options.ca.decode())
        assert context.cert_store_stats()["x509"] == 1
        ConnectCarrier(options.target, options.ca).close()
    assert client_options("https://host", ca="").ca is None


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\xff\xfe", b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"]
)
def test_a_file_without_certificates_is_refused(tmp_path, content):
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    with pytest.raises(InvalidSpecError, match="ca"):
        client_options("https://host", ca=path)


def test_a_certificate_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidSpecError, match=r"nowhere\.pem.*No such file"):
        client_options("https://host", ca=tmp_path / "nowhere.pem")
