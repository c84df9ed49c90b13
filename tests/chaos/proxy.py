"""A TCP proxy in front of Iris that cuts replies in the middle, delays, and refuses, on command."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable

LAUNCH_MARK = b"FRAY_AIRFLOW_LAUNCH"
"""In the bytes of a launch request, over gRPC and Connect alike, and in no other request."""

_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)
_ANSWER_SECONDS = 0.5
"""How long after its first sign of life a server is given to carry out a launch whose reply is to be lost."""


class Proxy:
    """Threads of this process: one that accepts, two per connection. Modes are switched while connections are open."""

    def __init__(self, upstream_port: int, chance: random.Random) -> None:
        self._upstream = ("127.0.0.1", upstream_port)
        self._chance = chance
        self._mode = "pass"
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: set[_Link] = set()
        self._on_launch: Callable[[int], None] | None = None
        self._closed = False
        self.relayed_at = 0.0
        self.cuts = self.lost_launches = self.refused = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: str) -> None:
        """`pass`, `cut` (every launch's reply and a third of the others), `delay` (each chunk), or `refuse`."""
        self._mode = mode
        if mode == "refuse":
            for link in list(self._links):
                link.reset()

    def on_next_launch(self, call: Callable[[int], None] | None) -> None:
        """`call(client's port)` once a launch has reached Iris; its reply never arrives. None takes that back."""
        self._on_launch = call

    def close(self) -> None:
        self._closed = True
        self._listener.close()
        for link in list(self._links):
            link.reset()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client, address[1]), daemon=True).start()

    def _connect(self, client: socket.socket, client_port: int) -> None:
        try:
            if self._mode == "refuse":
                raise ConnectionRefusedError
            server = socket.create_connection(self._upstream, 5)
        except OSError:
            # A reset is as good as a refusal, and the port cannot be lost to somebody else meanwhile.
            self.refused += 1
            _reset(client)
            return
        server.settimeout(None)
        link = _Link(self, client, server, client_port)
        self._links.add(link)
        threading.Thread(target=link.upstream, daemon=True).start()
        link.downstream()
        self._links.discard(link)

    def fate(self, link: _Link) -> bool:
        """Whether this reply is to be cut."""
        if self._mode == "delay":
            time.sleep(self._chance.uniform(0.2, 1.5))
        launch, link.launched = link.launched, False
        if launch and (call := self._on_launch):
            self._on_launch = None
            time.sleep(_ANSWER_SECONDS)
            self.lost_launches += 1
            call(link.client_port)
            return True
        cut = self._mode == "cut" and (launch or self._chance.random() < 1 / 3)
        if cut:
            time.sleep(_ANSWER_SECONDS if launch else 0)
            self.cuts += 1
            self.lost_launches += launch
        return cut


class _Link:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket, client_port: int) -> None:
        self.client_port = client_port
        self.launched = False
        self._proxy, self._client, self._server = proxy, client, server

    def upstream(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(_CHUNK):
                self.launched = self.launched or LAUNCH_MARK in data
                self._server.sendall(data)
            self._server.shutdown(socket.SHUT_WR)

    def downstream(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(_CHUNK):
                if self._proxy.fate(self):
                    self._client.sendall(data[: len(data) // 2])
                    break
                self._client.sendall(data)
                self._proxy.relayed_at = time.monotonic()
        self.reset()

    def reset(self) -> None:
        for each in (self._client, self._server):
            _reset(each)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Wakes the thread that reads from it, which close alone does not.
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
