"""How a refusal looks on the wire."""

from __future__ import annotations

from types import MappingProxyType

from fray_airflow.iris._gen import errors_pb2, time_pb2

HTTP_STATUS = MappingProxyType(
    {
        "canceled": 499,
        "unknown": 500,
        "invalid_argument": 400,
        "deadline_exceeded": 504,
        "not_found": 404,
        "already_exists": 409,
        "permission_denied": 403,
        "resource_exhausted": 429,
        "failed_precondition": 400,
        "aborted": 409,
        "out_of_range": 400,
        "unimplemented": 501,
        "internal": 500,
        "unavailable": 503,
        "data_loss": 500,
        "unauthenticated": 401,
    }
)
"""The Connect protocol's HTTP status of each code."""


class WireError(Exception):
    """An RPC's refusal. `details` is there only for what the controller did not expect itself."""

    def __init__(self, code: str, message: str, details: errors_pb2.ErrorDetails | None = None) -> None:
        super().__init__(code, message)
        if code not in HTTP_STATUS:
            raise ValueError(f"{code!r} is no status code; choose from {', '.join(HTTP_STATUS)}")
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def internal(method: str, error: Exception, now_ms: int) -> WireError:
    """What Iris answers when a handler raised: its bad inputs arrive like this, too."""
    kind = type(error)
    details = errors_pb2.ErrorDetails(
        exception_type=f"{kind.__module__}.{kind.__qualname__}",
        message=str(error),
        timestamp=time_pb2.Timestamp(epoch_ms=now_ms),
    )
    return WireError("internal", f"RPC {method}: {error}", details)
