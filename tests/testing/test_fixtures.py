"""The pytest fixtures in runs of pytest of their own: what a user's test sees, what its failures say, what is left."""

import json
import os
import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

USERS = Path(__file__).parent / "users"

CONFTEST = """
import json, os, threading
import psutil
import pytest

BEFORE = dict(os.environ)
# Of the process, as Airflow and this package keep them; and pytest's own variable.
KEPT = ("InProcessExecutionAPI", "ThreadPoolExecutor", "iris-log-writer", "PYTEST_CURRENT_TEST")
pytest_plugins = ["fray_airflow.testing"]

@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    left = {
        "variables": sorted(name for name in BEFORE | os.environ if BEFORE.get(name) != os.environ.get(name)),
        "threads": [each.name for each in threading.enumerate() if each is not threading.main_thread()],
        "processes": [child.name() for child in psutil.Process().children()],
    }
    with open("left.json", "w") as file:
        json.dump({kind: [name for name in names if not name.startswith(KEPT)] for kind, names in left.items()}, file)
"""


@pytest.fixture
def users_home(pytester, monkeypatch):
    """Where the user's Airflow would live. Nothing of this session's Airflow reaches the inner runs."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        monkeypatch.delenv(name)
    home = pytester.path / "users_airflow"
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    monkeypatch.setenv("HOME", str(pytester.path))
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("tmp")))
    return home


@pytest.fixture
def run_users_tests(pytester, users_home):
    """Runs files of `users`, or the text of a test, with the fixtures; returns pytest's result."""

    def run(*arguments, text="", conftest=CONFTEST):
        pytester.makeconftest(conftest)
        for name in [each for each in arguments if not each.startswith("-")]:
            (pytester.path / f"test_{name}").write_text((USERS / name).read_text())
        if text:
            pytester.makepyfile(text)
        options = [each for each in arguments if each.startswith("-")]
        return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-W", "error", *options)

    return run


WITH_ASYNCIO = ("-oasyncio_mode=auto", "-oasyncio_default_fixture_loop_scope=function")


def test_what_the_fixtures_do(run_users_tests, users_home, pytester):
    """Each test of a user's passes, with pytest-asyncio; and afterwards there is nothing left of them."""
    result = run_users_tests("passing.py", "whole_dags.py", *WITH_ASYNCIO)
    result.assert_outcomes(passed=result.parseoutcomes()["passed"])
    written = "".join((USERS / name).read_text() for name in ("passing.py", "whole_dags.py"))
    assert result.parseoutcomes()["passed"] >= written.count("def test_")
    assert json.loads((pytester.path / "left.json").read_text()) == {"variables": [], "threads": [], "processes": []}
    assert not users_home.exists()
    assert [path.name for path in (pytester.path / "tmp").iterdir() if path.name.startswith("fray")] == []


def test_what_failures_say(run_users_tests):
    """A test that would pass fails at its end when not all went as scripted, in its call, with what to do."""
    result = run_users_tests("failing.py", "-pno:asyncio", "--show-capture=no")
    result.assert_outcomes(failed=(USERS / "failing.py").read_text().count("def test_"))
    said = _by_test(result.stdout.str())
    job = r"/airflow/train_pipeline-train-[0-9a-f]+-t1 by task 'train': 1 x CPU"
    assert re.fullmatch(
        "A job that the script has no outcome for:\n"
        rf"  {job}, python train.py\n"
        r"The test scripts 'tokenise' and nothing else\.\n"
        r"If the job is right: local_iris\.script\('train'\)\n"
        r"If no job but those matters here: local_iris\.allow_others\(\)\n",
        said["test_an_unexpected_job"],
    )
    assert "used up before. Each try, rung, slice and mapped instance" in said["test_one_job_too_many"]
    assert re.fullmatch(
        r"local_iris\.script\('trian', \.\.\.\): no attempt met\n"
        r"  Outcome\.preempt\(\)\n"
        r"  Outcome\.fail\(exit_code=3, replica=1\)\n"
        r"No job of a task 'trian' was submitted\. Did you mean 'train'\? .*\n"
        rf"Submitted:\n  {job}, true\n",
        said["test_a_task_that_is_misspelt"],
    )
    assert "Outcome.succeed(lines=['epoch 1'], result={'loss': 1})" in said["test_fewer_attempts"]
    assert "Its jobs made fewer attempts." in said["test_fewer_attempts"]
    assert "Submitted: nothing." in said["test_nothing_was_submitted"]
    faults = said["test_faults_that_did_not_happen"]
    assert re.findall(r"local_iris\.(.*?):", faults) == [
        "away(...)",
        "fault('LaunchJob')",
        "lose_reply('TerminateJob')",
        "away(seconds=...)",
    ]
    assert "Outcome.hang() and Outcome.stay_pending() need one: placement_timeout" in said["test_a_wait_without_end"]
    assert "its own story" in said["test_a_failure_of_its_own"]
    assert "no attempt met" not in said["test_a_failure_of_its_own"]


def test_the_plugin_loads_neither_airflow_nor_grpc(run_users_tests):
    """A test that uses no fixture pays nothing: these come with the first fixture."""
    result = run_users_tests(
        "-pno:asyncio",
        text="""
import os, sys

def test_nothing_heavy():
    assert not {"airflow", "grpc", "google.protobuf", "httpx", "cloudpickle", "pandas"} & set(sys.modules)
    assert os.environ["AIRFLOW_HOME"] != os.path.join(os.environ["HOME"], "users_airflow")

def test_then_they_are(local_iris):
    assert {"airflow", "grpc"} <= set(sys.modules)
""",
    )
    result.assert_outcomes(passed=2)


def test_workers_of_xdist_have_homes_of_their_own(run_users_tests):
    """They would share the database of the process that started them."""
    result = run_users_tests(
        "-n2",
        *WITH_ASYNCIO,
        text="""
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(2))
def test_home(number, tmp_path_factory):
    seen = tmp_path_factory.getbasetemp().parent / "homes"
    seen.mkdir(exist_ok=True)
    (seen / os.environ["PYTEST_XDIST_WORKER"]).write_text(os.environ["AIRFLOW_HOME"])
    homes = [path.read_text() for path in seen.iterdir()]
    assert len(set(homes)) == len(homes)
    assert "users_airflow" not in os.environ["AIRFLOW_HOME"]
""",
    )
    result.assert_outcomes(passed=2)


def test_a_database_that_is_not_for_tests_is_refused(run_users_tests, users_home):
    """run_dag writes, and airflow was imported before it could be told where."""
    result = run_users_tests(
        "-pno:asyncio",
        conftest='import airflow.sdk\npytest_plugins = ["fray_airflow.testing"]\n',
        text="def test_dag(run_dag):\n    pass\n",
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*run_dag writes test runs into its database*"])
    assert not (users_home / "airflow.db").exists()


def _by_test(output):
    """What pytest prints of each failed test."""
    parts = re.split(r"^_+ (test_\w+) _+\n", output, flags=re.MULTILINE)
    return {
        name: re.split(r"^=+ ", text, flags=re.MULTILINE)[0]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }
