"""Producers whose records wait for the next object anyway are read together, some times before it.

A broker that wakes up for each of their requests spends a third of its processor time on that:
every time the code and its data have to be fetched to the processor again. So a connection whose
newest request was left for a later flush rests: until the next of a few moments, at which all that
rest are read, its socket is readable only with ``ENOUGH`` bytes, or at its end. The moments come
closer together towards the flush, so that it takes along what has arrived and there is little left
to read. No answer comes later for it: those behind that request would wait for its own.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final, Protocol

from headwater.engine import Backpressure

ENOUGH: Final = 64 * 1024
LONGEST: Final = 0.05
"""Seconds between two moments at most: what is read at once keeps others waiting."""
LAST_BUT_ONE: Final = 0.014
LAST: Final = 0.004
"""Seconds from the last moments to the flush: it finds what came in between, and little to do."""


class ReadSocket(Protocol):
    """What it takes of a socket."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


class Gathering:
    """One per listening side; it does nothing where flushes have no interval to keep."""

    def __init__(self, backpressure: Backpressure) -> None:
        self._backpressure = backpressure
        self._loop = asyncio.get_running_loop()
        self._resting: set[ReadSocket] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def inline_eligible_appends(self) -> int:
        return self._backpressure.inline_eligible_appends

    def rest(self, connection: ReadSocket, eligible_before: int) -> None:
        """Leave it alone until the next moment, if what it just sent has to wait for a flush.

        ``eligible_before`` is the value of ``inline_eligible_appends`` before it was read.
        """
        if self.inline_eligible_appends != eligible_before or connection in self._resting:
            return
        now = self._loop.time()
        pause = next_pause(self._backpressure.next_flush_at - now)
        if pause is None:
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, ENOUGH)
        self._resting.add(connection)
        if self._timer is None:
            self._timer = self._loop.call_at(now + pause, self._read_all)

    def wake(self, connection: ReadSocket) -> None:
        """Read it as soon as there is something: it waits for no answer any more."""
        if connection in self._resting:
            self._resting.discard(connection)
            with suppress(
                OSError, ValueError
            ):  # it is closed, and the others shall not wait for it
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    def leave(self, connection: ReadSocket) -> None:
        """Forget a connection that has closed."""
        self._resting.discard(connection)

    def _read_all(self) -> None:
        self._timer = None
        while self._resting:
            self.wake(next(iter(self._resting)))


def next_pause(until_flush: float) -> float | None:
    """Seconds until those that rest are read; None where it is not worth to rest.

    >>> [next_pause(seconds) for seconds in (0.2, 0.03, 0.01, 0.007, -1.0)]
    [0.05, 0.016, 0.006, None, None]
    """
    if until_flush < 2 * LAST:
        return None
    if until_flush < 2 * LAST_BUT_ONE:
        return until_flush - LAST
    return min(until_flush - LAST_BUT_ONE, LONGEST)
