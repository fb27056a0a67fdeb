"""Releases memory when the broker becomes idle.

After load the piece cache is full, and the C library keeps freed memory that lies between blocks
in use.

The broker is idle if it uses little processor time. That covers all requests and background
tasks, and other processes on the machine do not change it.
"""

import asyncio
import ctypes
import time
from collections.abc import Awaitable, Callable
from typing import Final

SAMPLE_SECONDS: Final = 10.0
"""Time between two samples of the processor time."""
IDLE_SECONDS: Final = 60.0
"""A broker releases memory after it was idle for this long."""
BUSY_FRACTION: Final = 0.05
"""A broker that used more than this fraction of one processor since the last sample is busy."""


class IdleDetector:
    """Says when to release memory: once in each idle period."""

    def __init__(self, now: float, cpu: float) -> None:
        self._sampled_at, self._cpu = now, cpu
        self._busy_until = now
        self._released = False

    def sample(self, now: float, cpu: float) -> bool:
        """Record the time and the processor time used so far, both in seconds. True if memory
        should be released now.
        """
        if cpu - self._cpu > BUSY_FRACTION * (now - self._sampled_at):
            self._busy_until = now
            self._released = False
        self._sampled_at, self._cpu = now, cpu
        if self._released or now - self._busy_until < IDLE_SECONDS:
            return False
        self._released = True
        return True


async def release_memory_when_idle(release: Callable[[], Awaitable[None]]) -> None:
    """Call ``release``, which shrinks caches, in each idle period; runs until cancelled."""
    loop = asyncio.get_running_loop()
    detector = IdleDetector(loop.time(), time.process_time())
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        if detector.sample(loop.time(), time.process_time()):
            await release()
            await asyncio.to_thread(trim_heap)


def trim_heap() -> None:
    """Return the C library's free memory to the system, if it is glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
