"""Draws what `watching.py` has measured: python benchmarks/plot.py RESULTS.json PLOT.png"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

_KINDS = {"alone": "one poll per trigger", "shared": "one poller for all"}
_PANELS = {"calls_per_interval": "calls per interval", "cpu_ms_per_interval": "CPU milliseconds per interval"}


def main(results: str, target: str) -> int:
    rows = json.loads(Path(results).read_text())
    figure, panels = pyplot.subplots(1, len(_PANELS), figsize=(9, 3.6), layout="constrained")
    for panel, (key, title) in zip(panels, _PANELS.items(), strict=True):
        for kind, label in _KINDS.items():
            points = [(row["jobs"], row[key]) for row in rows if row["kind"] == kind]
            panel.plot(*zip(*points, strict=True), marker="o", label=label)
        panel.set(title=title, xlabel="waiting jobs", xscale="log", yscale="log")
        panel.grid(alpha=0.3)
    panels[0].legend()
    Path(target).parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=120, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
