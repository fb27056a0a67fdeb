"""How much of producers' bytes a broker holds, and whether there is room for more."""

import asyncio


class Held:
    """Bytes that were taken in and are not yet committed; there is room below ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._room = asyncio.Event()
        self._room.set()
        self.bytes = 0

    @property
    def room(self) -> bool:
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    def take(self, size: int) -> None:
        self.bytes += size
        if self.bytes >= self._most:
            self._room.clear()

    def let_go(self, size: int) -> None:
        self.bytes -= size
        if self.bytes < self._most:
            self._room.set()

    def let_all_in(self) -> None:
        """Keep nobody waiting: what comes from here on is refused and not held."""
        self._room.set()
