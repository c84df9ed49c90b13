"""What moves bytes to a controller and back: the one interface of both transports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Metadata = Sequence[tuple[str, str]]

MAX_MESSAGE_BYTES = 256 * 1024**2
"""Replies with many log lines pass the 4 MiB that grpc allows by default."""


class Carrier(Protocol):
    """Raises WireFailure for every answer that is not a reply, and for none within `deadline` seconds."""

    def unary(self, path: str, request: bytes, metadata: Metadata, deadline: float) -> bytes: ...

    def close(self) -> None: ...


class AsyncCarrier(Protocol):
    async def unary(self, path: str, request: bytes, metadata: Metadata, deadline: float) -> bytes: ...

    async def close(self) -> None: ...
