"""README and docs against what is there: their Python runs, their commands parse, their links lead somewhere."""

import dataclasses
import importlib
import inspect
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

import fray_airflow
from fray_airflow.cli.main import _parser
from fray_airflow.local import Fleet, LocalIris

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
ADDRESS = "http://127.0.0.1:10000"
REFERENCE = "".join(page.read_text() for page in sorted((ROOT / "docs/reference").glob("*.md")))

each_page = pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_runs_as_it_stands(code):
    """Only the address of a controller is another one here."""
    with LocalIris(Fleet.of(cpu=1, tpu={"v5p-16": 1}), run="script") as iris:
        exec(code.replace(ADDRESS, iris.target), {"__name__": "page"})  # noqa: S102  # what people would paste


@each_page
def test_a_link_leads_to_a_file_and_a_heading(page):
    """Of links to other hosts nothing is said. Headings have the anchors that GitHub and the site give them."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    dead = [
        target
        for target in re.findall(r"\]\(([^)\s]+)\)", prose)
        if not re.match(r"[a-z]+:", target) and not _leads_somewhere(page, target)
    ]
    assert not dead


@each_page
def test_a_make_target_that_is_named_exists(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"^(?:\$ )?make ([a-z][a-z-]*)", "\n".join(_commands(page)), re.MULTILINE)
    assert set(named) <= targets


@each_page
def test_a_command_line_in_a_block_parses(page):
    """Each `fray-airflow` in a console block has the subcommand, options and arguments that the program takes."""
    for command in _blocks(page):
        if command.startswith("fray-airflow "):
            _parser().parse_args(shlex.split(command.partition(" | ")[0])[1:])


@each_page
def test_a_command_in_a_sentence_exists(page):
    """Its subcommand and options do; words in capitals stand for others."""
    for command in _spans(page):
        words = command.split()
        if words[:1] != ["fray-airflow"] or len(words) == 1 or words[1].isupper():
            continue
        assert words[1] in _options(), command
        assert {word for word in words if word.startswith("--")} <= _options()[words[1]], command


@pytest.mark.parametrize(
    "module", ["fray_airflow", *(f"fray_airflow.{n}" for n in ("hooks", "iris", "operators", "sensors", "triggers"))]
)
def test_the_reference_has_each_public_name(module):
    names = importlib.import_module(module).__all__
    assert [name for name in names if f":: {module}.{name}\n" not in REFERENCE] == []


def test_the_reference_has_all_of_testing_and_local():
    """The fixtures are in a page of their own."""
    for module, package in (("testing", "fray_airflow.testing"), ("local", "fray_airflow.local")):
        for name in importlib.import_module(package).__all__:
            assert re.search(rf":: fray_airflow\.{module}\.(\w+\.)?{name}\n", REFERENCE), name


def test_migration_has_each_flag_of_iris_job_run():
    """A flag that Iris adds or drops shows here when its version is raised."""
    iris = pytest.importorskip("iris.cli.job", reason="marin-iris is not installed")
    flags = {flag for option in iris.run.params for flag in (*option.opts, *option.secondary_opts) if flag[0] == "-"}
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(row[0] for row in _migration_rows())))
    assert named == flags


def test_migration_names_arguments_that_exist():
    """Each `name=` of its table is an argument of the operator or a field of what the operator takes."""
    fields = {
        field.name
        for config in (fray_airflow.ResourceConfig, fray_airflow.EnvironmentConfig)
        for field in dataclasses.fields(config)
    }
    operator = importlib.import_module("fray_airflow.operators").IrisSubmitJobOperator
    known = fields | set(inspect.signature(operator.__init__).parameters) | {"count"}
    assert set(re.findall(r"\b(\w+)=", " ".join(row[1] for row in _migration_rows()))) <= known


def _migration_rows():
    text = (ROOT / "docs/migration.md").read_text()
    table = text.partition("<!-- flags: begin -->")[2].partition("<!-- flags: end -->")[0]
    return [[cell.strip() for cell in line.split("|")[1:]] for line in table.splitlines()[3:] if line]


def _leads_somewhere(page, target):
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and (not anchor or anchor in _anchors(file))


@cache
def _anchors(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _commands(page):
    return [*_blocks(page), *_spans(page)]


def _blocks(page):
    """The commands of blocks that are no Python, without prompt and output."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        if language not in ("python", "yaml"):
            joined = block.replace("\\\n", " ")
            prompted = re.findall(r"^\$ (.*)", joined, re.MULTILINE)
            yield from prompted or joined.splitlines()


def _spans(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text))


@cache
def _options():
    commands = next(action for action in _parser()._actions if action.choices)
    return {name: set(parser._option_string_actions) for name, parser in commands.choices.items()}
