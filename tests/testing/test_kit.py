"""The kit as a user meets it: a pytest of its own, the page about it, the example beside the example DAGs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

import fray_airflow.testing
from fray_airflow.testing.home import is_throw_away

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing-your-dags.md"


def pytest_in(folder, *arguments, **environment):
    """Its output. Nothing of this session's Airflow reaches it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTEST"))}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-W",
        "error",
        *arguments,
    ]
    ended = subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=300, check=False
    )
    return ended.stdout + ended.stderr


def blocks(text):
    """The Python blocks of a page by the file that their first line names."""
    found = re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL)
    assert len(found) == text.count("```python"), "a block names no file"
    return found


def test_every_block_of_the_page_runs(tmp_path):
    """The page is a small project: its files, written down, are tests that pass."""
    tests = 0
    for name, code in blocks(PAGE.read_text()):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        tests += len(re.findall(r"^def test_", code, re.MULTILINE))
    output = pytest_in(tmp_path, HOME=str(tmp_path))
    assert f"{tests} passed" in output, output
    assert tests > 0
    # Airflow would have made its home there.
    assert not (tmp_path / "airflow").exists()


def test_the_example_test_of_the_example_dags_passes(tmp_path):
    """Wherever the DAGs are. It needs no Airflow home, even where the shell names one that must not be touched."""
    shutil.copytree(ROOT / "dags", tmp_path / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    output = pytest_in(tmp_path, "dags/tests", AIRFLOW_HOME="/nonexistent/airflow")
    assert re.search(r"^\d+ passed", output, re.MULTILINE), output


# Of Airflow's own reading of the file.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_tests_in_the_dag_folder_are_not_parsed_as_dags():
    """Airflow leaves alone what .airflowignore names, also where it does not look whether a file speaks of DAGs."""
    bag = DagBag(dag_folder=str(ROOT / "dags"), safe_mode=False)
    parsed = {Path(stat.file).as_posix().lstrip("/") for stat in bag.dagbag_stats}
    assert any(name.endswith("train_pipeline.py") for name in parsed)
    assert not [name for name in parsed if "tests/" in name]
    assert not bag.import_errors


def test_loading_the_fixtures_loads_neither_airflow_nor_grpc():
    """Airflow's configuration is read when it is imported, which is for the tests to do."""
    code = """
import sys
import fray_airflow.testing.fixtures
heavy = {"airflow", "grpc", "google.protobuf", "httpx", "cloudpickle", "pandas"} & set(sys.modules)
sys.exit(f"loaded: {heavy}" if heavy else 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_database_that_is_not_for_tests_is_refused(tmp_path):
    """run_dag writes, and airflow was imported before it could be told where."""
    (tmp_path / "conftest.py").write_text('import airflow.sdk\npytest_plugins = ["fray_airflow.testing"]\n')
    (tmp_path / "test_dag.py").write_text("def test_dag(run_dag):\n    pass\n")
    output = pytest_in(tmp_path, AIRFLOW_HOME=str(tmp_path / "real"))
    assert "run_dag writes test runs into its database" in output, output
    assert not (tmp_path / "real" / "airflow.db").exists()


def test_everything_that_is_exported_is_there():
    """Exports are lazy, so nothing else would notice one without a home."""
    assert [name for name in fray_airflow.testing.__all__ if not callable(getattr(fray_airflow.testing, name))] == []
    with pytest.raises(AttributeError, match="it has TaskInstance"):
        fray_airflow.testing.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("environment", "kept"),
    [
        ({}, False),
        ({"AIRFLOW_HOME": "/opt/airflow"}, False),
        ({"AIRFLOW_HOME": "/a", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://db/airflow"}, False),
        (fray_airflow.testing.airflow_environment(Path("/a")), True),
    ],
)
def test_only_a_home_that_was_made_for_tests_is_kept(environment, kept):
    """A shell that names the production database does not lend it to a test."""
    assert is_throw_away(environment) is kept
