"""When entries want to be looked at: one timer for all of them."""

import asyncio
import logging
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

from headwater.coordination.shards import Shard

logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0


class TimedEntry(Protocol):
    """An entry of a shard that has a deadline."""

    scheduled: float | None
    """For ``Timers`` alone: the earliest time at which they will look at the entry."""

    @property
    def name(self) -> str: ...

    @property
    def shard(self) -> Shard[Any]: ...

    @property
    def deadline(self) -> float | None:
        """On the loop's clock; None where there is nothing to wait for."""
        ...


E = TypeVar("E", bound=TimedEntry)


class Timers(Generic[E]):
    """Calls ``due`` for each entry whose deadline has come.

    A deadline that moves away costs nothing: the entry is looked at when the old one comes, and
    put back. So a heartbeat does not touch the heap.
    """

    def __init__(self, due: Callable[[E, float], None]) -> None:
        self._due = due
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, E]] = []
        self._numbers = count()
        self._handle: asyncio.TimerHandle | None = None

    def watch(self, entry: E) -> None:
        """Take note of the entry's deadline after it may have changed."""
        deadline = entry.deadline
        if deadline is not None and (entry.scheduled is None or deadline < entry.scheduled):
            self._schedule(entry, deadline)

    def _schedule(self, entry: E, deadline: float) -> None:
        entry.scheduled = deadline
        heappush(self._heap, (deadline, next(self._numbers), entry))
        if self._handle is None or deadline == self._heap[0][0]:
            self._arm()

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._heap.clear()

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(self._heap[0][0], self._fire) if self._heap else None

    def _fire(self) -> None:
        self._handle = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            deadline, _, entry = heappop(self._heap)
            if entry.scheduled != deadline:
                continue  # an earlier look replaced this one
            entry.scheduled = None
            if entry.shard.left:
                continue
            try:
                self._look(entry, now)
            except Exception:  # one entry must not stop the clock of all
                noun = entry.shard.kind.noun
                logger.exception("%s %s could not be looked after", noun, entry.name)
        self._arm()

    def _look(self, entry: E, now: float) -> None:
        deadline = entry.deadline
        if deadline is not None and deadline <= now:
            # Where it could not be looked after, by a lease in doubt, it is tried again.
            self._schedule(entry, now + AGAIN_SECONDS)
            self._due(entry, now)
        else:
            self.watch(entry)
