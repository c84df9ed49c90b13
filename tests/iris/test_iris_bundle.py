"""A workspace as a zip."""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from fray_airflow.errors import InvalidSpecError
from fray_airflow.iris.bundle import MAX_BUNDLE_BYTES, make_bundle

needs_git = pytest.mark.skipif(subprocess.run(["which", "git"], capture_output=True).returncode != 0, reason="no git")


def write(folder: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def names(bundle: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        assert archive.testzip() is None
        return archive.namelist()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write(tmp_path, **{"train.py": "1", "lib/model.py": "2", ".gitignore": "data/\n*.log\n"})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    return tmp_path


@needs_git
def test_tracked_files_and_untracked_ones_that_are_not_ignored_are_shipped(repository):
    write(repository, **{"new.py": "3", "data/big.bin": "x", "run.log": "x", "wäre schön.txt": "u"})
    assert names(make_bundle(repository)) == [".gitignore", "lib/model.py", "new.py", "train.py", "wäre schön.txt"]


@needs_git
def test_a_tracked_file_that_was_deleted_is_left_out(repository):
    (repository / "train.py").unlink()
    assert names(make_bundle(repository)) == [".gitignore", "lib/model.py"]


@needs_git
def test_a_folder_of_a_repository_is_the_root_of_its_bundle(repository):
    assert names(make_bundle(repository / "lib")) == ["model.py"]


@needs_git
def test_credentials_are_left_out_tracked_or_not(repository):
    secret = [".env", ".env.local", ".netrc", "conf/credentials.json", "server.pem", "server.key", ".git-credentials"]
    secret += ["id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".pypirc", ".npmrc", ".pgpass"]
    write(repository, **dict.fromkeys(secret, "hunter2"))
    git(repository, "add", "-A")
    bundle = make_bundle(repository)
    assert names(bundle) == [".gitignore", "lib/model.py", "train.py"]
    assert b"hunter2" not in bundle


def test_outside_git_all_but_caches_is_shipped(tmp_path):
    write(
        tmp_path, **{"a.py": "1", "b/c.py": "2", ".venv/x": "", "b/__pycache__/c.pyc": "", ".hidden": "3", ".env": ""}
    )
    assert names(make_bundle(tmp_path)) == [".hidden", "a.py", "b/c.py"]


def test_a_machine_without_git_ships_as_outside_git(tmp_path, monkeypatch):
    write(tmp_path, **{"a.py": "1"})
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert names(make_bundle(tmp_path)) == ["a.py"]


def test_equal_files_make_equal_bytes(tmp_path):
    files = {"z.py": "1", "a.py": "2", "m/n.py": "3"}
    one = write(tmp_path / "one", **files)
    two = write(tmp_path / "two", **dict(reversed(files.items())))
    for path in two.rglob("*"):
        os.utime(path, (1, 1))
    assert make_bundle(one) == make_bundle(two)
    assert make_bundle(one) != make_bundle(write(two, **{"a.py": "4"}))


def test_a_script_stays_executable(tmp_path):
    write(tmp_path, **{"run.sh": "#!/bin/sh\n", "data.txt": ""})
    (tmp_path / "run.sh").chmod(0o744)
    with zipfile.ZipFile(io.BytesIO(make_bundle(tmp_path))) as archive:
        modes = {entry.filename: oct(entry.external_attr >> 16) for entry in archive.infolist()}
    assert modes == {"run.sh": "0o755", "data.txt": "0o644"}


def test_an_empty_workspace_is_an_empty_zip(tmp_path):
    assert names(make_bundle(tmp_path)) == []


def test_a_bundle_that_is_too_large_names_the_largest_files(tmp_path):
    write(
        tmp_path, **{"small.py": "1", "weights.bin": os.urandom(MAX_BUNDLE_BYTES - 1000), "more.bin": os.urandom(2000)}
    )
    with pytest.raises(InvalidSpecError, match=r"bundle of 25\.0 MiB.*weights\.bin \(25\.0 MiB\), more\.bin"):
        make_bundle(tmp_path)


@pytest.mark.parametrize("make", [lambda path: path / "nowhere", lambda path: write(path, x="") / "x"])
def test_what_is_no_folder_is_refused(tmp_path, make):
    with pytest.raises(InvalidSpecError, match="is not a folder"):
        make_bundle(make(tmp_path))


def test_a_name_that_a_zip_cannot_hold_is_refused(tmp_path):
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.py"))).write_text("")
    with pytest.raises(InvalidSpecError, match="is not UTF-8"):
        make_bundle(tmp_path)
