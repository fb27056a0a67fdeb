"""Which chunks of an object are read with one request.

The object of a flush has the chunks of many streams next to each other. If a merge read each chunk
with a separate request, it would make more requests than the flushes did.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.log.formats.metadata_values import INLINE, IndexEntry

GAP_BYTES = 16 * 1024
"""Gaps up to this size are read through instead of sending a second request."""


@dataclass(slots=True)
class RangedRead:
    """One range of an object, and the numbers of the entries in it."""

    store: str
    key: str
    position: int
    length: int
    members: list[int]
    used: int
    """Bytes of the range that belong to an entry."""

    @property
    def end(self) -> int:
        return self.position + self.length


def plan_reads(entries: Sequence[IndexEntry]) -> Iterator[RangedRead]:
    """The ranges to read for all entries that are not inline.

    They have at most twice the bytes of the entries, and ``GAP_BYTES`` for each entry.
    """
    placed = sorted(
        (entry.store, entry.key, entry.position, number)
        for number, entry in enumerate(entries)
        if entry.kind != INLINE
    )
    read: RangedRead | None = None
    for store, key, position, number in placed:
        length = entries[number].length
        if read is not None and _reaches(read, store, key, position):
            read.length = max(read.length, position + length - read.position)
            read.members.append(number)
            read.used += length
            continue
        if read is not None:
            yield read
        read = RangedRead(store, key, position, length, [number], length)
    if read is not None:
        yield read


def _reaches(read: RangedRead, store: str, key: str, position: int) -> bool:
    """Whether a chunk at ``position`` is read with the range."""
    if (read.store, read.key) != (store, key):
        return False
    gap = position - read.end
    return gap <= GAP_BYTES or read.length - read.used + gap <= read.used
