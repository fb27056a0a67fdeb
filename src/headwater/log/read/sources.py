"""The interface through which the pieces of an index entry are found and read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.errors import StoreError
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.pieces import Piece
from headwater.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Extent:
    """The place of one piece inside a large entry."""

    start: int
    end: int
    position: int
    """Bytes from the start of the chunk or file."""
    length: int
    max_timestamp: int
    """At least the largest timestamp of the piece."""
    row_group: int = -1
    """Of a Parquet file; -1 if the range has no rows."""


class PieceSource(Protocol):
    """Reads entries of some kinds. Raises ``ObjectNotFound`` if the entry's object was deleted."""

    def is_large(self, entry: IndexEntry) -> bool:
        """Whether an entry is read in several pieces, its ``extents``, and not in one."""
        ...

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        """The pieces of a large entry; together they cover its range."""
        ...

    async def piece(self, stream: int, entry: IndexEntry, extent: Extent | None) -> Piece:
        """Read a piece. Without an extent, the whole entry, which is not large."""
        ...


def store_of(objects: Mapping[str, ObjectStore], entry: IndexEntry) -> ObjectStore:
    store = objects.get(entry.store)
    if store is None:
        raise StoreError(f"an entry names object store {entry.store!r}, which is not configured")
    return store


def whole(entry: IndexEntry) -> Extent:
    """The extent of an entry that is read in one piece."""
    return Extent(entry.start, entry.end, 0, entry.length, entry.max_timestamp)
