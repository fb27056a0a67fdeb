"""Writes the section of a flush: as a new object, or at the end of a growing object.

In a directory objects can grow. Appending to a file costs a write and a sync. A new file also costs
a directory entry, an inode and a second sync, which is several times slower. In other stores every
section is an object.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from headwater.objects.store import Buffer, GrowingObject, ObjectStore


@dataclass(frozen=True, slots=True)
class Section:
    """A written section: its object, where it begins there, and the object's next part numbers."""

    store: str
    key: str
    position: int
    size: int
    grows: bool
    part_numbers: Iterator[int]


class WalFiles:
    """Writes the sections of one incarnation."""

    def __init__(self, objects: ObjectStore, incarnation: str, object_bytes: int) -> None:
        self._objects = objects
        self._incarnation = incarnation
        self._object_bytes = object_bytes
        self._next = 0
        self._growing: GrowingObject | None = None
        self._part_numbers: Iterator[int] = count()

    async def write(self, parts: Sequence[Buffer]) -> Section:
        """Write a section durably. Raises the store's errors."""
        size = sum(map(len, parts))
        if self._growing is None or self._growing.size >= self._object_bytes:
            await self._begin()
        growing = self._growing
        if growing is None:
            key = self._next_key()
            await self._objects.put(key, parts)
            return Section(self._objects.id, key, 0, size, grows=False, part_numbers=count())
        numbers = self._part_numbers
        try:
            position = await growing.append(parts)
        except BaseException:
            if self._growing is growing:
                self._growing = None  # The next section begins another object.
            raise
        return Section(
            self._objects.id, growing.key, position, size, grows=True, part_numbers=numbers
        )

    async def _begin(self) -> None:
        before, self._growing = self._growing, self._objects.grow(self._next_key())
        self._part_numbers = count()
        if before is not None:
            await before.close()

    def _next_key(self) -> str:
        self._next += 1
        return f"wal/{self._incarnation}/{self._next:012d}.wo"

    async def close(self) -> None:
        if self._growing is not None:
            await self._growing.close()
