"""Backpressure from the engine's write buffers to the sockets."""

import asyncio
from typing import Protocol

from headwater.engine import Backpressure


class GatedConnection(Protocol):
    """A connection that stops reading while the engine's write buffers are full."""

    def room_available(self) -> None:
        """The engine has room again."""
        ...


class BackpressureGate:
    """Says whether connections may read, and resumes the paused ones.

    One task waits for the engine on behalf of all connections.
    """

    def __init__(self, backpressure: Backpressure) -> None:
        self._backpressure = backpressure
        self.bytes_per_client = backpressure.bytes_per_client
        self._paused: set[GatedConnection] = set()
        self._task: asyncio.Task[None] | None = None

    def admits(self, connection: GatedConnection) -> bool:
        """True if the engine has room. Otherwise ``room_available`` is called when it has."""
        if self._backpressure.room:
            return True
        self._paused.add(connection)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._wait())
        return False

    def forget(self, connection: GatedConnection) -> None:
        """Forget a connection that has closed."""
        self._paused.discard(connection)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self) -> None:
        await self._backpressure.wait_for_room()
        self._task = None
        paused, self._paused = self._paused, set()
        for connection in paused:
            connection.room_available()
