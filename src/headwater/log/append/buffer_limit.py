"""How many bytes of uncommitted appends a broker holds, and whether it may take more."""

import asyncio


class BufferLimit:
    """Counts buffered bytes. There is room while they are fewer than ``max_bytes``."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._room = asyncio.Event()
        self._room.set()
        self.bytes = 0

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    def add(self, size: int) -> None:
        self.bytes += size
        if self.bytes >= self._max_bytes:
            self._room.clear()

    def remove(self, size: int) -> None:
        self.bytes -= size
        if self.bytes < self._max_bytes:
            self._room.set()

    def open(self) -> None:
        """Release everyone who waits: later appends fail at once and take no memory."""
        self._room.set()
