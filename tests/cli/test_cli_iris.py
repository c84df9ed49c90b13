"""The embedded Iris as a command, its fleet from a YAML file, and the demo's arguments."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from fray_airflow.cli.iris import read_fleet
from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris import IrisClient


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "fray_airflow", "iris", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_the_fleet_of_a_file_until_it_is_told_to_end(tmp_path, ending):
    (tmp_path / "fleet.yaml").write_text("cpu: 1\ntpu:\n  v5p-16: 1\n")
    process = start("--fleet", tmp_path / "fleet.yaml", "--json")
    try:
        address = json.loads(process.stdout.readline())
        for target in (address["target"], address["url"]):
            with IrisClient(target) as client:
                assert sorted(each.scale_group for each in client.workers()) == ["cpu", "tpu_v5p_16", "tpu_v5p_16"]
    finally:
        process.send_signal(ending)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_people_are_told_the_connection_to_set():
    process = start()
    line = process.stdout.readline()
    export = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    name, _, value = export.strip().removeprefix("export ").partition("=")
    assert name == "AIRFLOW_CONN_IRIS_DEFAULT"
    assert json.loads(value.strip("'"))["host"] in line


def test_a_port_that_is_taken_is_one_message(command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = command("iris", "--connect-port", taken.getsockname()[1])
    assert ended.code == 1
    assert ended.err.startswith("fray-airflow: cannot listen on 127.0.0.1: ")
    assert ended.err.count("\n") == 1


def test_a_list_is_a_fleet_in_several_regions(tmp_path):
    path = tmp_path / "fleet.yaml"
    path.write_text("- {tpu: {v5p-16: 2}, region: us}\n- {tpu: {v5p-16: 1}, region: eu, preemptible: false}\n")
    shown = [(group.name, group.slices, group.region, group.preemptible) for group in read_fleet(path).groups]
    assert shown == [("tpu_v5p_16", 2, "us", True), ("tpu_v5p_16_eu", 1, "eu", False)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tpu: {v5p-17: 2}", ["tpu: Unknown TPU type 'v5p-17'; did you mean 'v5p-16'?"]),
        ("cpus: 2", ["'cpus' is unknown; choose from cpu, tpu, gpu"]),
        (
            "cpu: many\npreemptible: 3",
            ["cpu: 'many' is not a whole number", "preemptible: 3 is neither true nor false"],
        ),
        ("- cpu: 1\n- cpu: -1", ["[1] cpu: -1 is not a whole number of at least 0"]),
        ("just text", ["holds no mapping"]),
        ("", ["holds no mapping"]),
        ("[]", ["holds no mapping"]),
        ("a: [", ["is not YAML", "line 1"]),
    ],
)
def test_faults_of_a_fleet_file_are_named_by_file_field_value_and_choices(tmp_path, text, said):
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    with pytest.raises(InvalidSpecError) as caught:
        read_fleet(path)
    for words in (str(path), *said):
        assert words in str(caught.value)


def test_a_fleet_file_that_is_not_there_is_misuse(command, tmp_path):
    ended = command("iris", "--fleet", tmp_path / "none.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert "cannot be read" in ended.err


def test_the_demo_takes_an_iris_and_a_dag_file(command, tmp_path, iris):
    """It fails here, as there is no such DAG file, and says so by its exit code."""
    ended = command("demo", "--iris", iris.target, "--dag", tmp_path / "none.py")
    assert ended.code == 1
    assert "The DAG did not succeed." in ended.out
