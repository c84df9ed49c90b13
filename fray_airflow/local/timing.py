"""How long things take in the embedded Iris."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Mostly shorter than in Iris, where lines come 1.5 s late, a drain takes 3 s, a sweep comes every 60 s and a
    worker is given up after 50 s.
    """

    log_delay_seconds: float = 0.3
    drain_seconds: float = 0.5
    kill_grace_seconds: float = 1.0
    sweep_seconds: float = 1.0
    worker_grace_seconds: float = 1.0
    boot_seconds: float = 1.0
    longest_drain_seconds: float = 120.0
