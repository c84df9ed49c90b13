"""`python -m fray_airflow.local`: serve an embedded Iris until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .environment import LOOPBACK
from .fleet import Fleet
from .serve import serve
from .server import LocalIris


def main(arguments: list[str] | None = None) -> int:
    parent = os.getppid()
    options = _parser().parse_args(arguments)
    try:
        fleet = Fleet.from_mapping(json.loads(options.fleet.read_text())) if options.fleet else Fleet.default()
    except (OSError, ValueError) as error:
        print(f"fray_airflow.local: {options.fleet}: {error}", file=sys.stderr)
        return 2
    iris = LocalIris(fleet, host=options.host, port=options.port, connect_port=options.connect_port)
    serve(
        iris,
        lambda: print(json.dumps({"target": iris.target, "url": iris.url}), flush=True),
        going=lambda: not options.die_with_parent or os.getppid() == parent,
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fray_airflow.local", description=__doc__)
    parser.add_argument("--fleet", type=Path, metavar="FILE", help="JSON object with the arguments of Fleet.of")
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, default=0, help="for gRPC; 0 takes a free one")
    parser.add_argument("--connect-port", type=int, default=0, help="for Connect over HTTP/1.1; 0 takes a free one")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the starting process does")
    return parser


if __name__ == "__main__":
    sys.exit(main())
