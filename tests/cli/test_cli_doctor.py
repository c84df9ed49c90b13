"""doctor: what it finds, where it stops, what it advises."""

import json
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from fray_airflow.local import Fleet, LocalIris

ALL_WELL = [
    "name resolves",
    "port answers",
    "TLS",
    "transport",
    "who we are",
    "latency",
    "server",
    "log service",
    "workers",
]


def findings(command, *words):
    ended = command("doctor", "--json", *words)
    answer = json.loads(ended.out)
    assert answer["well"] is (ended.code == 0)
    return {each["step"]: each for each in answer["findings"]}


@pytest.mark.parametrize(
    ("address", "spoken"), [("target", "gRPC, as the"), ("url", "Connect, as the"), ("bare", "gRPC, found out")]
)
def test_a_well_controller_passes_every_step_over_both_transports(command, iris, address, spoken):
    target = iris.target.removeprefix("grpc://") if address == "bare" else getattr(iris, address)
    found = findings(command, "--target", target)
    assert list(found) == ALL_WELL
    assert {each["result"] for each in found.values()} == {"ok"}
    assert found["transport"]["text"].startswith(spoken)
    assert found["workers"]["text"] == "2 cpu, 4 v5p-16"
    assert found["who we are"]["text"] == "anonymous (admin); jobs are submitted as airflow"


def test_a_connection_is_checked_from_its_fields_on(command, iris, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_IRIS_DEFAULT", json.dumps({"conn_type": "iris", "host": iris.url, "login": "me"}))
    found = findings(command)
    assert list(found) == ["connection", "fields", *ALL_WELL]
    assert found["fields"]["text"] == f"address {iris.url}, user me"


def test_a_connection_that_is_not_there_is_the_first_finding(command):
    found = findings(command, "--conn", "nowhere")
    assert [each["result"] for each in found.values()] == ["failed"]
    assert "AIRFLOW_CONN_NOWHERE" in found["connection"]["advice"]


def test_faulty_fields_are_named_all_at_once(command, monkeypatch):
    extra = json.dumps({"colour": "red", "tls": "perhaps"})
    monkeypatch.setenv("AIRFLOW_CONN_FAULTY", json.dumps({"conn_type": "iris", "host": "h", "extra": extra}))
    text = findings(command, "--conn", "faulty")["fields"]["text"]
    assert "extra 'colour' is unknown" in text
    assert "'perhaps' is not true or false" in text


def failure(command, *words):
    *fine, last = findings(command, *words).values()
    assert {each["result"] for each in fine} <= {"ok"}
    assert last["result"] == "failed"
    return last["step"], f"{last['text']} {last['advice']}"


def test_a_name_that_does_not_resolve_ends_the_check(command):
    step, text = failure(command, "--target", "nowhere.invalid")
    assert step == "name resolves"
    assert "nowhere.invalid is not known" in text


def test_a_closed_port_ends_the_check(command):
    step, text = failure(command, "--target", "127.0.0.1:1")
    assert step == "port answers"
    assert "connection refused" in text
    assert "the port (10000 if none is given)" in text


def test_tls_to_a_plain_port_ends_the_check(command, iris):
    step, text = failure(command, "--target", iris.url.replace("http:", "https:"))
    assert step == "TLS"
    assert "write http:// or grpc://" in text


def test_a_transport_that_is_not_spoken_there_ends_the_check(command, iris):
    step, text = failure(command, "--target", iris.url.replace("http:", "grpc:"))
    assert step == "transport"
    assert "This port speaks Connect" in text


def test_a_wrong_token_is_found_where_it_matters(command, monkeypatch):
    """The transport is still said: a refusal is spoken in it."""
    monkeypatch.setenv("FRAY_AIRFLOW_TOKEN", "hush-hush")
    with LocalIris(token="right") as guarded:
        step, text = failure(command, "--target", guarded.url)
    assert step == "who we are"
    assert "FRAY_AIRFLOW_TOKEN" in text
    assert "hush" not in text


def test_a_log_service_elsewhere_is_asked_there(command, iris):
    step, text = failure(command, "--target", iris.target, "--log-target", "127.0.0.1:1")
    assert step == "log service"
    assert "log_target" in text


def test_no_machines_are_a_warning_and_no_failure(command):
    with LocalIris(Fleet(())) as empty:
        found = findings(command, "--target", empty.target)
    assert found["workers"]["result"] == "warning"
    assert "scale groups" in found["workers"]["advice"]


def test_people_get_the_advice_below_the_table(command):
    ended = command("doctor", "--target", "127.0.0.1:1")
    assert ended.code == 1
    assert ended.out.splitlines()[0].split() == ["STEP", "RESULT", "FOUND"]
    assert ended.out.splitlines()[-1].startswith("port answers: Check that the controller runs")


@pytest.fixture
def tls_port(tmp_path):
    """A port that shakes hands with a certificate of its own making, and hangs up. Yields its address and the file."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*make, *subject, "-out", certificate, "-keyout", key], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def answer():
            while not ended.is_set():
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                with plain:
                    try:
                        context.wrap_socket(plain, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"https://localhost:{server.getsockname()[1]}", str(certificate)
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_a_certificate_is_trusted_only_when_it_is_given(command, tls_port):
    address, certificate = tls_port
    step, text = failure(command, "--target", address)
    assert step == "TLS"
    assert "not trusted" in text
    assert "--ca" in text
    found = findings(command, "--target", address, "--ca", certificate)
    assert found["TLS"]["text"].startswith("TLSv1.3, certificate valid until ")
    assert found["transport"]["result"] == "failed"
