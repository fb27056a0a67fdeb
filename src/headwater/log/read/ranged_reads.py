"""Which chunks of an object are read together.

A flush's object holds the chunks of many streams side by side. Read one by one they cost a request
each; on a paid store the requests of a merge would cost more than the flushes themselves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.log.formats.metadata_values import INLINE, IndexEntry

GAP_BYTES = 16 * 1024
"""So many bytes that nobody asked for are always cheaper to read than another request."""


@dataclass(slots=True)
class RangedRead:
    """A range of an object, and which of the entries lie in it."""

    store: str
    key: str
    position: int
    length: int
    members: list[int]
    asked: int
    """Bytes of it that belong to an entry."""

    @property
    def end(self) -> int:
        return self.position + self.length


def plan_reads(entries: Sequence[IndexEntry]) -> Iterator[RangedRead]:
    """The ranges to read for all entries that are not inline, each in one of them.

    What is read is at most twice what was asked for, and ``GAP_BYTES`` an entry.
    """
    placed = sorted(
        (entry.store, entry.key, entry.position, number)
        for number, entry in enumerate(entries)
        if entry.kind != INLINE
    )
    span: RangedRead | None = None
    for store, key, position, number in placed:
        length = entries[number].length
        if span is not None and _reaches(span, store, key, position):
            span.length = max(span.length, position + length - span.position)
            span.members.append(number)
            span.asked += length
            continue
        if span is not None:
            yield span
        span = RangedRead(store, key, position, length, [number], length)
    if span is not None:
        yield span


def _reaches(span: RangedRead, store: str, key: str, position: int) -> bool:
    """Whether what begins there is read with the span."""
    if (span.store, span.key) != (store, key):
        return False
    gap = position - span.end
    return gap <= GAP_BYTES or span.length - span.asked + gap <= span.asked
