"""A limit on the bytes that are being read for all consumers together."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LoadBudget:
    """Admits reads in order of arrival while they are at most ``limit`` bytes together.

    A larger read runs alone.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.loading = 0
        """Bytes of the running reads."""

    @asynccontextmanager
    async def admitted(self, size: int) -> AsyncIterator[None]:
        """Wait for room; the bytes count until the block ends."""
        if self._waiting or not self._fits(size):
            await self._wait(size)
        else:
            self.loading += size
        try:
            yield
        finally:
            self.loading -= size
            self._admit()

    async def _wait(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # It was admitted at the same moment.
                self.loading -= size
            elif (size, turn) in self._waiting:
                self._waiting.remove((size, turn))
            self._admit()
            raise

    def _fits(self, size: int) -> bool:
        return not self.loading or self.loading + size <= self._limit

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self.loading += size
                turn.set_result(None)
