"""One timer for the deadlines of all entries."""

import asyncio
import logging
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

from headwater.coordination.shards import Shard

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""After a deadline passed, the entry is checked again after this time."""


class TimedEntry(Protocol):
    """An entry of a shard that has a deadline."""

    scheduled: float | None
    """The time of the entry's alarm; only ``Timers`` writes it."""

    @property
    def name(self) -> str: ...

    @property
    def shard(self) -> Shard[Any]: ...

    @property
    def deadline(self) -> float | None:
        """On the loop's clock; None if the entry has no deadline."""
        ...


E = TypeVar("E", bound=TimedEntry)


class Timers(Generic[E]):
    """Calls ``due`` for each entry whose deadline has passed.

    A deadline that moves to a later time costs nothing: the old alarm fires, finds the entry not
    due, and sets the next alarm. So a heartbeat does not touch the heap.
    """

    def __init__(self, due: Callable[[E, float], None]) -> None:
        self._due = due
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, E]] = []
        self._numbers = count()
        self._handle: asyncio.TimerHandle | None = None

    def watch(self, entry: E) -> None:
        """Set an alarm for the entry; call this whenever its deadline may have changed."""
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
                continue  # an earlier alarm replaced this one
            entry.scheduled = None
            if entry.shard.resigned:
                continue
            try:
                self._check(entry, now)
            except Exception:  # one entry must not stop the timer of all
                noun = entry.shard.kind.noun
                logger.exception("A timer failed", extra={"kind": noun, "entry": entry.name})
        self._arm()

    def _check(self, entry: E, now: float) -> None:
        deadline = entry.deadline
        if deadline is not None and deadline <= now:
            # ``due`` does nothing while the lease may have expired: try again.
            self._schedule(entry, now + RETRY_SECONDS)
            self._due(entry, now)
        else:
            self.watch(entry)
