"""How long the event loop is held, and by what.

All clients share one loop: whatever holds it delays every reply. A timer measures by how much the
loop is late, whatever held it. Each turn of a request is timed besides, so that the warning names
the API and the client.
"""

import asyncio
import logging
from time import monotonic
from typing import Final

from headwater.telemetry.metrics import Metrics
from headwater.work_budget import SLOW_TURN_SECONDS

log = logging.getLogger(__name__)

SAMPLE_SECONDS: Final = 0.25
KEPT_SAMPLES: Final = 240
"""The gauge shows the longest delay of the last one to two minutes, so that no scrape misses it."""
WARNING_SECONDS: Final = 10.0
"""Seconds between two warnings about one API: a client chooses how many requests are slow."""
_ELSEWHERE: Final = "other work"


class LoopDelay:
    """One per listening side; ``start`` begins to sample, ``stop`` ends it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._samples = 0
        self._longest = self._longest_before = 0.0
        self._explained = 0.0
        """Seconds of slow turns since the last sample."""
        self._warned_at: dict[str, float] = {}

    def start(self) -> None:
        self._due = monotonic() + SAMPLE_SECONDS
        self._timer = asyncio.get_running_loop().call_later(SAMPLE_SECONDS, self._sample)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def held(self, api: str, peer: str, seconds: float) -> None:
        """A request's turn took longer than ``SLOW_TURN_SECONDS``."""
        self._explained += seconds
        self._count(api, seconds, f"{api} from {peer}")

    def _sample(self) -> None:
        self.record(max(0.0, monotonic() - self._due))
        self.start()

    def record(self, delay: float) -> None:
        """Take in by how much the loop is late."""
        if self._samples == KEPT_SAMPLES:
            self._samples, self._longest_before, self._longest = 0, self._longest, 0.0
        self._samples += 1
        self._longest = max(self._longest, delay)
        self._metrics.loop_delay_seconds.set(max(self._longest, self._longest_before))
        unexplained, self._explained = delay - self._explained, 0.0
        if unexplained >= SLOW_TURN_SECONDS:
            self._count(_ELSEWHERE, unexplained, _ELSEWHERE)

    def _count(self, api: str, seconds: float, what: str) -> None:
        self._metrics.slow_turns[api].inc()
        now = monotonic()
        if now - self._warned_at.get(api, -WARNING_SECONDS) >= WARNING_SECONDS:
            self._warned_at[api] = now
            log.warning("%s held the event loop for %.2f s: other clients waited", what, seconds)
