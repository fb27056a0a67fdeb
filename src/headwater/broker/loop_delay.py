"""Measures how long the event loop is blocked, and which API blocked it.

All clients share one loop, so work that blocks it delays every reply. A timer measures how late
the loop runs. In addition each turn of a request is timed, so that the warning can name the API
and the client.
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
"""Least seconds between two warnings about one API: a client may send many slow requests."""
_OTHER_WORK: Final = "other work"


class LoopDelay:
    """One per server; ``start`` begins to sample, ``stop`` ends it."""

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

    def report_slow_turn(self, api: str, peer: str, seconds: float) -> None:
        """Count a turn of a request that took longer than ``SLOW_TURN_SECONDS``."""
        self._explained += seconds
        self._count(api, seconds, peer)

    def _sample(self) -> None:
        self.record(max(0.0, monotonic() - self._due))
        self.start()

    def record(self, delay: float) -> None:
        """Record one sample: the loop is ``delay`` seconds late."""
        if self._samples == KEPT_SAMPLES:
            self._samples, self._longest_before, self._longest = 0, self._longest, 0.0
        self._samples += 1
        self._longest = max(self._longest, delay)
        self._metrics.loop_delay_seconds.set(max(self._longest, self._longest_before))
        unexplained, self._explained = delay - self._explained, 0.0
        if unexplained >= SLOW_TURN_SECONDS:
            self._count(_OTHER_WORK, unexplained, None)

    def _count(self, api: str, seconds: float, peer: str | None) -> None:
        self._metrics.slow_turns[api].inc()
        now = monotonic()
        if now - self._warned_at.get(api, -WARNING_SECONDS) >= WARNING_SECONDS:
            self._warned_at[api] = now
            log.warning(
                "The event loop was blocked and other clients waited",
                extra={"api": api, "peer": peer, "seconds": round(seconds, 3)},
            )
