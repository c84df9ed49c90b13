"""A workspace as a zip: what git tracks or would track, the same bytes for the same files."""

from __future__ import annotations

import io
import os
import re
import subprocess
import zipfile
from pathlib import Path

from fray_airflow.errors import InvalidSpecError

MAX_BUNDLE_BYTES = 25 * 1024**2
"""Iris refuses a larger bundle."""

_CREDENTIALS = (
    *(".env", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", "credentials.json"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"),
)
_SECRET_SUFFIXES = (".pem", ".key")
_ALWAYS_LEFT_OUT = {".git", "__pycache__", ".venv", "node_modules", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
_UTF8 = re.compile("[^\ud800-\udfff]*")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def make_bundle(workspace: Path) -> bytes:
    """The files of `workspace` that git tracks or would track, without credentials; outside git, all but caches.

    Deterministic, so that Iris stores equal workspaces once. Raises InvalidSpecError for a folder that is not there and
    for a bundle above MAX_BUNDLE_BYTES, naming the largest files.
    """
    if not workspace.is_dir():
        raise InvalidSpecError("EnvironmentConfig", [f"workspace={str(workspace)!r} is not a folder"])
    names = [name for name in _listed(workspace) if not _is_credential(Path(name).name)]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if (workspace / name).stat().st_mode & 0o111 else 0o644) << 16
            archive.writestr(entry, (workspace / name).read_bytes())
    bundle = buffer.getvalue()
    if len(bundle) > MAX_BUNDLE_BYTES:
        raise InvalidSpecError("EnvironmentConfig", [_too_large(workspace, names, len(bundle))])
    return bundle


def _listed(workspace: Path) -> list[str]:
    listing = _git_listing(workspace)
    if listing is not None:
        names = [name for name in os.fsdecode(listing).split("\0") if name]
    else:
        names = [str(path.relative_to(workspace)) for path in workspace.rglob("*")]
    kept = {name for name in names if (workspace / name).is_file() and not _ALWAYS_LEFT_OUT & set(Path(name).parts)}
    if bad := [name for name in kept if not _UTF8.fullmatch(name)]:
        raise InvalidSpecError("EnvironmentConfig", [f"workspace: the name {name!r} is not UTF-8" for name in bad])
    return sorted(kept)


def _git_listing(workspace: Path) -> bytes | None:
    """None outside git, and on a machine without git."""
    listed = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(["git", "-C", str(workspace), *listed], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return listing.stdout if listing.returncode == 0 else None


def _is_credential(name: str) -> bool:
    return name in _CREDENTIALS or name.startswith(".env.") or name.endswith(_SECRET_SUFFIXES)


def _too_large(workspace: Path, names: list[str], size: int) -> str:
    largest = sorted(names, key=lambda name: (workspace / name).stat().st_size, reverse=True)[:5]
    listed = ", ".join(f"{name} ({(workspace / name).stat().st_size / 1024**2:.1f} MiB)" for name in largest)
    return (
        f"workspace={str(workspace)!r} makes a bundle of {size / 1024**2:.1f} MiB; Iris takes at most "
        f"{MAX_BUNDLE_BYTES // 1024**2}. Largest files: {listed}. Add data to .gitignore, or use an image."
    )
