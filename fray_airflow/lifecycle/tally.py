"""What is counted over a whole launch, whichever driver was at it: each hands it on to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fray_airflow.lifecycle.seen import Seen


@dataclass(frozen=True, slots=True)
class Tally:
    """launches: how often this try submitted, all slices of a launch as one; 0 where it only adopted.

    outages: how often Iris stopped answering, however long each took.
    """

    launches: int = 0
    outages: int = 0

    def after(self, before: Seen, now: Seen) -> Tally:
        """With what happened between two states of knowledge."""
        new_job = bool(now.job_id) and now.job_id != before.job_id
        # What was submitted without an answer is found later, and then adopted.
        launched = new_job and (before.unsure or not now.adopted)
        went_away = now.away_since is not None and before.away_since is None
        return Tally(self.launches + launched, self.outages + went_away)

    def to_json(self) -> dict[str, int]:
        return {"launches": self.launches, "outages": self.outages}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Tally:
        """Missing keys count nothing, unknown ones (a newer writer) are ignored."""
        return Tally(int(value.get("launches", 0)), int(value.get("outages", 0)))
