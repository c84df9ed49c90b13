"""The endpoint registry: leases, and the harm that a wrong address does. The rest is in the contract."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest

from fray_airflow import Entrypoint, JobRequest
from fray_airflow.errors import IrisUnavailableError
from fray_airflow.iris import IrisClient
from fray_airflow.iris._gen import controller_pb2
from fray_airflow.local import Fleet, LocalIris, Outcome
from fray_airflow.local.cluster import ENDPOINTS

C = controller_pb2.Controller


def register(iris, address="h:1"):
    request = C.RegisterEndpointRequest(name="name", address=address, task_id="/a/j/0")
    iris.cluster.handle(ENDPOINTS + "RegisterEndpoint", request.SerializeToString())


def listed(iris):
    reply = iris.cluster.handle(ENDPOINTS + "ListEndpoints", b"")
    return [each.name for each in C.ListEndpointsResponse.FromString(reply).endpoints]


def test_an_entry_is_gone_when_its_lease_ends(iris, job):
    """Ten minutes after it was registered or renewed, though its task still runs."""
    iris.script("j", Outcome.hang())
    iris.launch(job())
    iris.run(1)
    register(iris)
    iris.now += 599
    register(iris)
    iris.now += 599
    assert listed(iris) == ["name"]
    iris.now += 1
    assert listed(iris) == []


@pytest.fixture
def busy():
    """A local Iris with a running task."""
    with LocalIris(Fleet.of(cpu=1), run="script") as iris, IrisClient(iris.url, user="a") as client:
        iris.script("j", Outcome.hang())
        client.submit(JobRequest(name="j", entrypoint=Entrypoint.from_binary("true")))
        while client.tasks("/a/j")[0].state.name != "RUNNING":
            time.sleep(0.02)
        yield iris


@pytest.mark.parametrize("address", ["a b:1", '{"k":1}', "h:1,h:2", "::1:80", "http://h x:1", "ü:1", "h<:1"])
def test_an_address_that_is_none_takes_the_logs_away(busy, address):
    """Of all jobs, as on the real Iris, until the entry is gone. Job calls go on."""
    register(busy, address)
    with IrisClient(busy.url) as client, pytest.raises(IrisUnavailableError, match="endpoint registry unavailable"):
        client.logs("/a/j")
    with pytest.raises(urllib.error.HTTPError) as caught:
        _post(busy.url + "/proxy/system.log-server/finelog.logging.LogService/PushLogs", {})
    with caught.value as reply:
        assert (reply.code, json.loads(reply.read())) == (503, {"error": "endpoint registry unavailable"})
    with IrisClient(busy.url) as client:
        client.terminate("/a/j")
        assert client.logs("/a/j").lines == ()


@pytest.mark.parametrize(
    "address", ["h:1", "h", "", "[::1]:80", "http://h:1/x", "tcp://a b:1", "h_a:1", "a@h:1", "h/p"]
)
def test_an_address_that_is_one_or_is_left_out_does_no_harm(busy, address):
    """As on the real Iris."""
    register(busy, address)
    with IrisClient(busy.url) as client:
        assert client.logs("/a/j").lines == ()


def _post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10)
