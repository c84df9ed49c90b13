"""The launches of one try, one after another: down the ladder of its rungs, and again when slices were lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

ROUND_ENV = "FRAY_AIRFLOW_ROUND"
"""The environment variable that says which round a job belongs to. GetJobStatus echoes it, so that a driver that finds
the job knows where its try had come."""

LAST_ROUND = 99
"""Names have room for so many."""

_SHORTEST_REST, _LONGEST_REST = 5.0, 120.0


@dataclass(frozen=True, slots=True)
class Round:
    """Where a try has come. number: launches before this one. rung: the choice of machines that it is on.

    failures, preemptions: how often the slices were launched again after one failed, or lost its machines.
    holds: how often slices were given back because others did not come.
    chip_seconds: what the launches before this one have cost; here, since the next driver finds it with the job.
    """

    number: int = 0
    rung: int = 0
    failures: int = 0
    preemptions: int = 0
    holds: int = 0
    chip_seconds: float = 0.0

    def next_rung(self) -> Round:
        return Round(self.number + 1, self.rung + 1, chip_seconds=self.chip_seconds)

    def after_failure(self) -> Round:
        return replace(self, number=self.number + 1, failures=self.failures + 1)

    def after_preemption(self) -> Round:
        return replace(self, number=self.number + 1, preemptions=self.preemptions + 1)

    def after_hold(self) -> Round:
        return replace(self, number=self.number + 1, holds=self.holds + 1)

    def rest(self, salt: str) -> timedelta:
        """How long to leave the slices to others after a hold: longer each time, and not for two launches alike.

        From a hash instead of a random number, so that a driver that takes over decides the same.
        """
        longest = min(_SHORTEST_REST * 2**self.holds, _LONGEST_REST)
        share = int(hashlib.sha256(f"{salt}{self.number}".encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        return timedelta(seconds=_SHORTEST_REST + share * (longest - _SHORTEST_REST))

    def to_json(self) -> dict[str, int | float]:
        return {name: getattr(self, name) for name in Round.__dataclass_fields__}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Round:
        counts = {
            name: int(value[name]) for name in ("number", "rung", "failures", "preemptions", "holds") if name in value
        }
        return Round(**counts, chip_seconds=float(value.get("chip_seconds", 0)))

    def to_text(self) -> str:
        return json.dumps(self.to_json())

    @staticmethod
    def from_text(text: str) -> Round:
        """The first round for a job that says nothing of it."""
        try:
            return Round.from_json(json.loads(text)) if text else Round()
        except (ValueError, TypeError, AttributeError):
            return Round()


FIRST_ROUND = Round()
