"""Runs a real Iris until interrupted and prints its address. Usage: start.py [--grpc]"""

from __future__ import annotations

import signal
import sys
import threading

from real_iris import missing_packages, run_real_iris


def main() -> int:
    if missing := missing_packages():
        print(f"Install {missing} first: see the dependency group iris in pyproject.toml.", file=sys.stderr)
        return 2
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with run_real_iris("grpc" if "--grpc" in sys.argv[1:] else "connect") as iris:
        print(iris.target, flush=True)
        if iris.log_target:
            print(f"log_target: {iris.log_target}", flush=True)
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
