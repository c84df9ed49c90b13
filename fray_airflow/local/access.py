"""Who calls, and what they may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fray_airflow.iris._gen import job_pb2

from .names import JobName
from .wire_error import WireError

NO_CREDENTIAL = "authentication required"
BAD_CREDENTIAL = "authentication failed"


@dataclass(frozen=True)
class Caller:
    user_id: str = "anonymous"
    role: str = "admin"

    @property
    def is_admin(self) -> bool:
        return self.role == "admin"

    def owner_of(self, name: JobName) -> JobName:
        """The name under which the caller's job is kept. A plain user's root job always becomes their own."""
        if self.is_admin or name.user == self.user_id:
            return name
        if name.parent_id:
            raise self._stranger(name.user)
        return name.owned_by(self.user_id)

    def check_may_change(self, owner: str) -> None:
        if not self.is_admin and owner != self.user_id:
            raise self._stranger(owner)

    def check_band(self, band: int, owner: str) -> None:
        """Without a budget that says otherwise, nobody gets above INTERACTIVE, not even an admin."""
        if band not in (job_pb2.PRIORITY_BAND_PRODUCTION, job_pb2.PRIORITY_BAND_SYSTEM):
            return
        if not self.is_admin:
            raise WireError("permission_denied", f"manage_budgets not allowed for role {self.role}")
        name = job_pb2.PriorityBand.Name(band).removeprefix("PRIORITY_BAND_").lower()
        raise WireError(
            "permission_denied", f"Budget identity {owner} cannot submit {name} jobs (max band: interactive)"
        )

    def check_profile(self, profile: int) -> None:
        powerful = (job_pb2.CONTAINER_PROFILE_PRIVILEGED, job_pb2.CONTAINER_PROFILE_DOCKER_ACCESS)
        if profile in powerful and not self.is_admin:
            raise WireError("permission_denied", f"set_container_profile not allowed for role {self.role}")

    def _stranger(self, owner: str) -> WireError:
        return WireError("permission_denied", f"User '{self.user_id}' cannot access resources owned by '{owner}'")


@dataclass(frozen=True)
class Access:
    """Without `token` everybody is the anonymous admin and credentials are ignored, as on a local Iris cluster."""

    token: str | None = None
    user_id: str = "alice"
    role: str = "user"

    def authenticate(self, metadata: Mapping[str, str]) -> Caller:
        """`metadata` has lower-case keys. Raises WireError `unauthenticated`."""
        if self.token is None:
            return Caller()
        scheme, _, credential = metadata.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise WireError("unauthenticated", NO_CREDENTIAL)
        if credential.strip() != self.token:
            raise WireError("unauthenticated", BAD_CREDENTIAL)
        return Caller(self.user_id, self.role)
