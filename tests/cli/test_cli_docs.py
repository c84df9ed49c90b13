"""docs/cli.md says what the commands do."""

import re
import shlex
from pathlib import Path

import pytest

from fray_airflow.cli import main
from fray_airflow.cli.exits import Exit
from fray_airflow.cli.iris import read_fleet

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cli.md").read_text()
SHOWN = re.findall(r"```console\n\$ fray-airflow ([^\n]+)\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize(("words", "output"), [pair for pair in SHOWN if pair[1]])
def test_shown_output_is_what_the_command_prints(command, words, output):
    ended = command(*shlex.split(words))
    assert (ended.code, ended.out) == (0, output)


def test_the_readme_shows_the_beginning_of_what_is_printed(command):
    ((words, lines, output),) = re.findall(
        r"```console\n\$ fray-airflow (explain [^\n|]+) \| head -(\d+)\n(.*?)```",
        (ROOT / "README.md").read_text(),
        re.DOTALL,
    )
    ended = command(*shlex.split(words))
    assert (ended.code, ended.out.splitlines(keepends=True)[: int(lines)]) == (0, output.splitlines(keepends=True))


def test_two_explanations_are_shown():
    assert len([words for words, output in SHOWN if output and words.startswith("explain ")]) == 2


def test_the_explained_task_is_there(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    (words,) = [words for words, output in SHOWN if words.startswith("explain ") and not output]
    assert "1 slice x 2 VMs x 4 chips (TPU v5p-16)" in command(*shlex.split(words)).out


@pytest.mark.parametrize("words", [words for words, output in SHOWN if not words.startswith("explain ")])
def test_every_other_command_line_is_understood(command, words):
    """It gets as far as the Iris that is not there."""
    assert command(*shlex.split(words), "--target", "127.0.0.1:1").code == Exit.NO_IRIS


def test_every_command_is_listed(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, re.MULTILINE)
    assert commands == re.findall(r"^\| `([a-z]+)[ `]", TEXT, re.MULTILINE)


def test_every_exit_code_is_listed():
    assert [str(int(code)) for code in Exit] == re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)


def test_the_fleet_is_one(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "fleet.yaml").write_text(block)
    assert [group.region for group in read_fleet(tmp_path / "fleet.yaml").groups] == ["us-central2"] * 2 + ["us-east5"]
