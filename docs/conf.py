"""Sphinx's configuration. `make docs` builds the site: offline, and every warning is an error."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.errors import SphinxError

from fray_airflow.errors import IrisError
from fray_airflow.get_provider_info import get_provider_info

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Airflow makes a home for itself when it is imported: a throw-away one, so that a build neither reads nor leaves one.
_home = tempfile.TemporaryDirectory(prefix="fray-airflow-docs-")
os.environ["AIRFLOW_HOME"] = _home.name
logging.getLogger("airflow").setLevel(logging.WARNING)

project = "fray-airflow"
author = "the authors of fray-airflow"
release = version = get_provider_info()["versions"][0]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
# Quotes in docstrings are mostly those of Python.
smartquotes = False

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
# Types of others are not looked up: their documentation is on the internet. Our own have to be there, or be one of
# these, which stand in signatures only.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!fray_airflow\.).*"),
    (r"py:.*", r"fray_airflow\.(iris\._gen|iris\.operations|iris\.target|iris\.options\.ClientOptions|scaling)\b.*"),
]

html_theme = "furo"
html_title = "fray-airflow"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

_TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
_FIELDS = re.compile(r"(\w+(?:, \w+)*): (.*)")
_LOADS = re.compile(r"<(?:link|script|img|source|iframe)\b[^>]*?(?:href|src)=\"(?:https?:)?//[^\"]*\"")


def _add_new_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """In the index, `*` stands for the pages that none of its trees names: a new page is in without being listed."""
    if docname != "index":
        return
    named = {line.strip() for tree in _TOCTREE.findall(source[0]) for line in tree.splitlines()}
    others = sorted(path.stem for path in Path(app.srcdir).glob("*.md"))
    source[0] = source[0].replace("\n*\n", "\n" + "".join(f"{n}\n" for n in others if n not in {"index", *named}), 1)


def _show_defaults(
    _app: Sphinx, _kind: str, _name: str, documented: Any, _options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Defaults as one would write them, where their repr is no Python: `CpuConfig()` for `<factory>`."""
    if inspect.isclass(documented) and issubclass(documented, IrisError) and "__init__" not in vars(documented):
        # As its parent's, which the page shows at length.
        return "(message: str, **facts: Any)", None
    if signature is not None:
        for field in dataclasses.fields(documented) if dataclasses.is_dataclass(documented) else ():
            if field.default_factory is not dataclasses.MISSING:
                made = f"{field.default_factory.__name__}()".replace("<lambda>()", "...")
                signature = signature.replace("<factory>", made, 1)
        signature = re.sub(r"<(?:class '|(?:built-in )?function )([\w.]+)'?>", r"\1", signature)
    return signature, returns


def _read_docstring(_app: Sphinx, _kind: str, _name: str, documented: Any, _options: Any, lines: list[str]) -> None:
    """The package's docstrings write `field: text`, which becomes a list of definitions, and code as Markdown does."""
    names = _parameters(documented)
    text = re.sub(r"\. (\w+): ", lambda found: f".\n{found[1]}: " if found[1] in names else found[0], "\n".join(lines))
    text = re.sub(r"(?<!`)`([^`]+)`(?!`)", lambda found: f"``{found[1].strip()}``", text)
    lines[:] = _with_lists(text.split("\n"), names)


def _parameters(documented: Any) -> set[str]:
    try:
        return set(inspect.signature(documented).parameters) | set(getattr(documented, "__annotations__", {}))
    except (TypeError, ValueError):
        return set()


def _with_lists(lines: list[str], names: set[str]) -> Iterator[str]:
    in_field, before = False, ""
    for line in lines:
        found = _FIELDS.match(line)
        if found and set(found[1].split(", ")) & names:
            yield from ("", ", ".join(f"``{name}``" for name in found[1].split(", ")), f"    {found[2]}")
            in_field = True
        elif in_field and line.strip() and not (before.endswith(".") and line[0].isupper()):
            # Its text goes on, with or without an indent.
            yield f"    {line.strip()}"
        else:
            if in_field:
                yield ""
            in_field = False
            yield line
        before = line


def _check_offline(app: Sphinx, error: Exception | None) -> None:
    """A page that loads something from elsewhere would not work, or tell on its reader."""
    if error is not None:
        return
    pages = {path: _LOADS.findall(path.read_text()) for path in Path(app.outdir).rglob("*.html")}
    if faults := [f"{path.relative_to(app.outdir)}: {tag}" for path, tags in pages.items() for tag in tags]:
        raise SphinxError("these pages load something from elsewhere:\n" + "\n".join(faults))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _add_new_pages)
    app.connect("autodoc-process-signature", _show_defaults)
    app.connect("autodoc-process-docstring", _read_docstring)
    app.connect("build-finished", _check_offline)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
