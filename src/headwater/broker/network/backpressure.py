"""Back-pressure from the engine's write buffers to the sockets."""

import asyncio
from typing import Protocol

from headwater.engine import Backpressure


class Held(Protocol):
    """A connection that can be told that there is room again."""

    def room_returned(self) -> None: ...


class RoomGate:
    """Says whether connections may be read, and wakes those that were held back.

    One task waits for the engine on behalf of all connections.
    """

    def __init__(self, backpressure: Backpressure) -> None:
        self._backpressure = backpressure
        self.share = backpressure.bytes_per_client
        self._held: set[Held] = set()
        self._task: asyncio.Task[None] | None = None

    def admits(self, connection: Held) -> bool:
        """True where there is room; otherwise the connection is woken when there is."""
        if self._backpressure.room:
            return True
        self._held.add(connection)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._wait())
        return False

    def release(self, connection: Held) -> None:
        """Forget a connection that has closed."""
        self._held.discard(connection)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self) -> None:
        await self._backpressure.wait_for_room()
        self._task = None
        held, self._held = self._held, set()
        for connection in held:
            connection.room_returned()
