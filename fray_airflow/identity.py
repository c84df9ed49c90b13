"""Launch identity: the name of a job is known before the call that creates it, so a crash cannot make a second one."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

LAUNCH_ENV = "FRAY_AIRFLOW_LAUNCH"
"""The environment variable that carries the token. GetJobStatus echoes it: the proof that a job is ours."""

_LONGEST_NAME = 63
_ROOM = len("-r99-s9999")
"""Kept free behind every name, so that `name_at` can tell the jobs of one try apart."""
_HASH_LENGTH = 12


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """What one try of one task instance launches.

    Names are durable state: two versions of this package must make the same name of the same identity.

    deployment: tells Airflow installations apart that share one Iris.
    user: the first part of the job id, as the server will have it.
    run_start: tells a run from an earlier, deleted one with the same id.
    """

    deployment: str
    user: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    run_start: str

    def job_name(self, rung: int = 0, slice: int = 0) -> str:
        """A readable slug, a hash of everything but the try, and the try: at most 63 of `[a-z0-9._-]`.

        `rung` counts the launches of one try, `slice` the jobs of one launch.
        """
        tail = f"-{self._place()}-t{self.try_number}"
        slug = re.sub(r"[^a-z0-9._]+", "-", f"{self.dag_id}-{self.task_id}".lower()).strip("-.")
        slug = slug[: _LONGEST_NAME - _ROOM - len(tail)].rstrip("-.")
        return name_at((slug or "job") + tail, rung, slice)

    def job_id(self, rung: int = 0, slice: int = 0) -> str:
        return f"/{self.user}/{self.job_name(rung, slice)}"

    def token(self) -> str:
        """`<place>.<life>`: equal place means the same task instance, equal token the same try of the same run."""
        return f"{self._place()}.{_digest(self.run_start, self.try_number)}"

    def of_try(self, try_number: int) -> LaunchIdentity:
        """The same task instance at another try."""
        return LaunchIdentity(
            self.deployment,
            self.user,
            self.dag_id,
            self.run_id,
            self.task_id,
            self.map_index,
            try_number,
            self.run_start,
        )

    def _place(self) -> str:
        return _digest(self.deployment, self.user, self.dag_id, self.run_id, self.task_id, self.map_index)


def name_at(name: str, rung: int = 0, slice: int = 0) -> str:
    """The name, or job id, of a further launch of the same try, or of a further slice of one launch.

    >>> name_at("/me/train-t1", slice=2)
    '/me/train-t1-s2'
    """
    return name + (f"-r{rung}" if rung else "") + (f"-s{slice}" if slice else "")


def same_place(token: str, other: str) -> bool:
    """Whether both tokens are of the same task instance, perhaps of another try or an earlier life of the run."""
    place = token.partition(".")[0]
    return bool(place) and place == other.partition(".")[0]


def _digest(*parts: str | int) -> str:
    # JSON keeps the parts apart: ("ab", "c") and ("a", "bc") differ.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_HASH_LENGTH]
