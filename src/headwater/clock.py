"""Time as an argument, so that the core can run on simulated time.

Waiting is done with ``asyncio.sleep`` and ``loop.time()``, which a simulated event loop
replaces; only the wall clock and the boot clock need a seam of their own.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall-clock time; it may jump, so nothing's safety may rest on it."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def boot_seconds() -> float:
    """The host's boot clock: it never goes back, and it counts the time of a suspended machine."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
