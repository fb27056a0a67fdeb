"""Delays reads of producers whose records wait for the next flush anyway, and batches them.

Without this a broker wakes up for each Produce request, and these wake-ups cost about a third of
its processor time, because each one finds cold processor caches. So when the newest request of a
connection was left for a later flush, the connection's reads are delayed: the socket is readable
only with ``LOW_WATERMARK_BYTES`` bytes or at end of file. All delayed sockets are read together
at a few scheduled times before the flush. These times lie closer together towards the flush, so
that the flush includes what has arrived and little is left to read.

No reply is later because of this: the requests behind the newest one would wait for its reply.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final, Protocol

from headwater.engine import Backpressure

LOW_WATERMARK_BYTES: Final = 64 * 1024
"""A delayed socket is readable with this many bytes (``SO_RCVLOWAT``)."""
MAX_READ_INTERVAL_SECONDS: Final = 0.05
"""Longest time between two scheduled reads: a larger batch would delay other clients."""
PENULTIMATE_READ_SECONDS: Final = 0.014
"""The last read but one is scheduled this many seconds before the flush."""
FINAL_READ_SECONDS: Final = 0.004
"""The last read is scheduled this many seconds before the flush."""


class ReadSocket(Protocol):
    """The one method of a socket that is needed."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


class ReadCoalescer:
    """One per server. It does nothing if the engine has no flush interval."""

    def __init__(self, backpressure: Backpressure) -> None:
        self._backpressure = backpressure
        self._loop = asyncio.get_running_loop()
        self._delayed: set[ReadSocket] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def inline_eligible_appends(self) -> int:
        return self._backpressure.inline_eligible_appends

    def delay_reads(self, connection: ReadSocket, eligible_before: int) -> None:
        """Delay reads until the next scheduled time, if what was just sent waits for a flush.

        ``eligible_before`` is the value of ``inline_eligible_appends`` before the socket was read.
        """
        if self.inline_eligible_appends != eligible_before or connection in self._delayed:
            return
        now = self._loop.time()
        delay = next_read_delay(self._backpressure.next_flush_at - now)
        if delay is None:
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOW_WATERMARK_BYTES)
        self._delayed.add(connection)
        if self._timer is None:
            self._timer = self._loop.call_at(now + delay, self._read_all)

    def resume_reads(self, connection: ReadSocket) -> None:
        """Read the socket as soon as it has bytes: its client waits for no reply any more."""
        if connection in self._delayed:
            self._delayed.discard(connection)
            # A socket that was closed meanwhile must not keep the other ones delayed.
            with suppress(OSError, ValueError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def forget(self, connection: ReadSocket) -> None:
        """Forget a connection that has closed."""
        self._delayed.discard(connection)

    def _read_all(self) -> None:
        self._timer = None
        while self._delayed:
            self.resume_reads(next(iter(self._delayed)))


def next_read_delay(until_flush: float) -> float | None:
    """Seconds until delayed sockets are read; None if the flush is too close to delay a read.

    >>> [next_read_delay(seconds) for seconds in (0.2, 0.03, 0.01, 0.007, -1.0)]
    [0.05, 0.016, 0.006, None, None]
    """
    if until_flush < 2 * FINAL_READ_SECONDS:
        return None
    if until_flush < 2 * PENULTIMATE_READ_SECONDS:
        return until_flush - FINAL_READ_SECONDS
    return min(until_flush - PENULTIMATE_READ_SECONDS, MAX_READ_INTERVAL_SECONDS)
