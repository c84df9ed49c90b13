"""A real Iris controller that also answers gRPC. Usage: serve_grpc.py CLUSTER_YAML

The controller's own port refuses HTTP/2. Its web application, the same object, is therefore served a second time, by
hypercorn over HTTP/2 without TLS. The log service is not part of that application: it has an address of its own, and
answers gRPC there.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import urllib.request
from urllib.parse import urlsplit

from hypercorn.asyncio import serve
from hypercorn.config import Config
from iris.cluster.config import load_config, make_local_config
from iris.cluster.local_cluster import LocalCluster
from iris.cluster.platforms.types import find_free_port


def main() -> None:
    cluster = LocalCluster(make_local_config(load_config(sys.argv[1])))
    cluster.start()
    try:
        asyncio.run(_serve(cluster._controller))
    finally:
        cluster.close()


async def _serve(controller) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    port = find_free_port()
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = None
    serving = asyncio.create_task(serve(controller._dashboard.app, config, mode="asgi", shutdown_trigger=ended.wait))
    await _answering(port, serving)
    log_service = urlsplit(controller._log_service_address).netloc
    print(json.dumps({"target": f"grpc://127.0.0.1:{port}", "log_target": f"grpc://{log_service}"}), flush=True)
    await serving


async def _answering(port: int, serving: asyncio.Task[None]) -> None:
    while not serving.done():
        try:
            await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}/health", timeout=5)
        except OSError:
            await asyncio.wait([serving], timeout=0.05)
        else:
            return


if __name__ == "__main__":
    main()
