"""Clocks that are passed as arguments, so that the core can run on simulated time.

The core waits with ``asyncio.sleep`` and ``loop.time()``, which a simulated event loop replaces.
Only the wall clock and the boot clock need an interface.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The wall clock. It may jump, so no guarantee may depend on it."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class SystemClock:
    """The wall clock of the machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def boot_seconds() -> float:
    """Seconds on the host's boot clock, which never goes back and runs while it is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
