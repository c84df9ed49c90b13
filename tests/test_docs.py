"""The Python of README and docs: each block makes its DAGs, or talks to an Iris, as it stands."""

import re
from pathlib import Path

import pytest

from fray_airflow.local import Fleet, LocalIris

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
ADDRESS = "http://127.0.0.1:10000"


@pytest.mark.parametrize("code", BLOCKS)
def test_a_block_runs_as_it_stands(code):
    """Only the address of a controller is another one here."""
    with LocalIris(Fleet.of(cpu=1, tpu={"v5p-16": 1}), run="script") as iris:
        exec(code.replace(ADDRESS, iris.target), {"__name__": "page"})  # noqa: S102  # what people would paste
