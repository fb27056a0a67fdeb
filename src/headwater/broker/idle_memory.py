"""A broker without work gives back the memory that its work took.

Two things stay behind after load. The cache of pieces is as large as it may be, and the C
library keeps what was freed between blocks that are still in use.

Processor time is the measure of work, for it counts every kind of request and the broker's own
tasks, and other processes of the machine do not change it.
"""

import asyncio
import ctypes
import time
from collections.abc import Awaitable, Callable
from typing import Final

LOOK_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 60.0
"""How long a broker must have been idle before it gives memory back."""
BUSY_FRACTION: Final = 0.05
"""A broker that uses more of one processor than this between two looks is not idle."""


class Idleness:
    """Says when memory is to be given back: once in each time without work."""

    def __init__(self, now: float, cpu: float) -> None:
        self._looked, self._cpu = now, cpu
        self._busy_until = now
        self._released = False

    def look(self, now: float, cpu: float) -> bool:
        """Take note of a time, and of the processor time that was used until then, in seconds."""
        if cpu - self._cpu > BUSY_FRACTION * (now - self._looked):
            self._busy_until = now
            self._released = False
        self._looked, self._cpu = now, cpu
        if self._released or now - self._busy_until < IDLE_SECONDS:
            return False
        self._released = True
        return True


async def give_memory_back(release: Callable[[], Awaitable[None]]) -> None:
    """Watch for times without work until cancelled; ``release`` drops what caches can spare."""
    loop = asyncio.get_running_loop()
    idleness = Idleness(loop.time(), time.process_time())
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if idleness.look(loop.time(), time.process_time()):
            await release()
            await asyncio.to_thread(trim_heap)


def trim_heap() -> None:
    """Return free memory of the C library to the system; nothing where it cannot (not glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
