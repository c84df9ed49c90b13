"""A real Iris, the local cluster of marin-iris, at an address that other machines reach.

Its controller listens on a free port of loopback whatever its configuration says, so that this hands on every
connection, byte by byte.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
from urllib.parse import urlsplit

from iris.cluster.config import load_config, make_local_config
from iris.cluster.local_cluster import LocalCluster

_CHUNK_BYTES = 64 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cluster", help="its machines, as YAML")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=10000)
    options = parser.parse_args()
    cluster = LocalCluster(make_local_config(load_config(options.cluster)))
    controller = urlsplit(cluster.start())
    try:
        asyncio.run(_hand_on(options.host, options.port, controller.hostname, controller.port))
    finally:
        cluster.close()


async def _hand_on(host: str, port: int, to_host: str | None, to_port: int | None) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            other_reader, other_writer = await asyncio.open_connection(to_host, to_port)
            await asyncio.gather(_pipe(reader, other_writer), _pipe(other_reader, writer))

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    server = await asyncio.start_server(connected, host, port)
    print(f"Iris listens on {host}:{port}", flush=True)
    await ended.wait()
    server.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()


if __name__ == "__main__":
    main()
