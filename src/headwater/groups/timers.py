"""When groups want to be looked at: one timer for all of them."""

import asyncio
import logging
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from headwater.groups.machine import Machine
from headwater.groups.shards import Group

logger = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 1.0


class Timers:
    """Calls ``due`` for each group whose machine's deadline has come.

    A deadline that moves away costs nothing: the group is looked at when the old one comes, and
    put back. So a heartbeat does not touch the heap.
    """

    def __init__(self, due: Callable[[Group, float], None]) -> None:
        self._due = due
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, Group]] = []
        self._numbers = count()
        self._handle: asyncio.TimerHandle | None = None

    def watch(self, group: Group) -> None:
        """Take note of the group's deadline after any call of its machine."""
        deadline = None if group.machine is None else group.machine.deadline
        if deadline is not None and (group.scheduled is None or deadline < group.scheduled):
            self._schedule(group, deadline)

    def _schedule(self, group: Group, deadline: float) -> None:
        group.scheduled = deadline
        heappush(self._heap, (deadline, next(self._numbers), group))
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
            deadline, _, group = heappop(self._heap)
            if group.scheduled != deadline:
                continue  # an earlier look replaced this one
            group.scheduled = None
            if group.shard.left or group.machine is None:
                continue
            try:
                self._look(group, group.machine, now)
            except Exception:  # one group must not stop the clock of all
                logger.exception("group %s could not be looked after", group.name)
        self._arm()

    def _look(self, group: Group, machine: Machine, now: float) -> None:
        wanted = machine.deadline
        if wanted is not None and wanted <= now:
            # Where it could not be looked after, by a lease in doubt, it is tried again.
            self._schedule(group, now + AGAIN_SECONDS)
            self._due(group, now)
        else:
            self.watch(group)
