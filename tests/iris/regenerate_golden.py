"""Writes `golden/*.txtpb` anew. Look at the difference before committing it: it is what Iris will get.

python tests/iris/regenerate_golden.py
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent)]

from golden_jobs import FOLDER, as_text, kept, requests  # noqa: E402


def main() -> None:
    made = {name: as_text(request) for name, request in requests().items()}
    for name in kept().keys() - made.keys():
        (FOLDER / f"{name}.txtpb").unlink()
    for name, text in made.items():
        (FOLDER / f"{name}.txtpb").write_text(text)


if __name__ == "__main__":
    main()
