"""HTTP/2 as Iris's port answers it: 400 to whatever is asked, gRPC included.

What a gRPC client makes of that ("http2 header with status: 400") is how one can tell such a port.
"""

from __future__ import annotations

from io import BufferedIOBase

PREFACE_LINE = b"PRI * HTTP/2.0"

_REST_OF_PREFACE = len(b"\r\nSM\r\n\r\n")
_FRAME_HEADER = 9
_DATA, _HEADERS, _SETTINGS, _PING = 0x0, 0x1, 0x4, 0x6
_ACK = _END_STREAM = 0x1
_END_HEADERS = 0x4
# Entry 12 of HPACK's static table is `:status: 400`; the top bit says that the whole field is in the table.
_STATUS_400 = bytes([0x80 | 12])
_BODY = b'{"error":"invalid private controller URI: invalid authority"}'


def refuse_all(reader: BufferedIOBase, writer: BufferedIOBase) -> None:
    """Serve a connection whose first line was the preface, until the client closes it."""
    reader.read(_REST_OF_PREFACE)
    _send(writer, _SETTINGS, 0, 0)
    while len(header := reader.read(_FRAME_HEADER)) == _FRAME_HEADER:
        kind, flags = header[3], header[4]
        payload = reader.read(int.from_bytes(header[:3]))
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            _send(writer, kind, _ACK, 0, payload if kind == _PING else b"")
        elif kind == _HEADERS:
            stream = int.from_bytes(header[5:]) & 0x7FFFFFFF
            _send(writer, _HEADERS, _END_HEADERS, stream, _STATUS_400)
            _send(writer, _DATA, _END_STREAM, stream, _BODY)


def _send(writer: BufferedIOBase, kind: int, flags: int, stream: int, payload: bytes = b"") -> None:
    writer.write(len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload)
    writer.flush()
