"""How the pieces of an index entry are found and read: one source for each kind of entry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.errors import StoreError
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.pieces import Piece
from headwater.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Extent:
    """One piece's place inside a large entry."""

    start: int
    end: int
    position: int
    """Bytes from where the chunk, or else the file, begins."""
    length: int
    max_timestamp: int
    """No record of the piece is later."""
    row_group: int = -1
    """Of a Parquet file; -1 where no rows are read."""


class PieceSource(Protocol):
    """Reads entries of some kinds. Raises ``ObjectNotFound`` where the entry's object is gone."""

    def is_large(self, entry: IndexEntry) -> bool:
        """Whether an entry is cut into pieces by its ``extents``; else it is one piece."""
        ...

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        """How a large entry is cut; the pieces make up its range."""
        ...

    async def piece(self, stream: int, entry: IndexEntry, extent: Extent | None) -> Piece:
        """Read a piece; without an extent the whole entry, which is not large."""
        ...


def store_of(objects: Mapping[str, ObjectStore], entry: IndexEntry) -> ObjectStore:
    store = objects.get(entry.store)
    if store is None:
        raise StoreError(f"no object store {entry.store!r} is configured")
    return store


def whole(entry: IndexEntry) -> Extent:
    """The extent of an entry that is one piece."""
    return Extent(entry.start, entry.end, 0, entry.length, entry.max_timestamp)
