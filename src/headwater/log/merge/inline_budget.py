"""How much record data may lie in the metadata store, so that it is never filled.

Small flushes travel inside their metadata transaction, and a merge moves them to objects later. A
store bounds how much of it may wait for that (``Limits.inline_bytes``); each live broker has an
equal share. Past its share a broker flushes to objects; past half of it, it moves what lies there.

A broker counts what it committed itself and corrects the count whenever it plans a merge, which
reads a stream's entries. It knows nothing of what an earlier process of it left before the first
sweep has looked at its streams, so for that time the store may hold twice the bound.
"""

from collections.abc import Callable, Sequence

from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import INLINE


class InlineBudget:
    """One broker's count, by stream; ``limit`` is the store's and ``brokers`` how many share it."""

    def __init__(self, limit: int, brokers: Callable[[], int]) -> None:
        self._limit = limit
        self._brokers = brokers
        self._by_stream: dict[int, int] = {}
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes of records in the metadata store, as far as this broker knows."""
        return self._used

    @property
    def share(self) -> int:
        return self._limit // max(1, self._brokers())

    def admits(self, size: int) -> bool:
        """Whether a flush of that size may go to the metadata store."""
        return self._used + size <= self.share

    def added(self, stream: int, size: int) -> None:
        """This broker committed so many bytes inline, or moved them where it is negative."""
        self.measured(stream, max(0, self._by_stream.get(stream, 0) + size))

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """See ``CommitSubscriber``."""
        for each in landed:
            if each.entry is not None and each.entry.kind == INLINE:
                self.added(each.commit.stream, each.entry.length)

    def measured(self, stream: int, size: int) -> None:
        """A look at the stream's entries found so many bytes inline."""
        self._used += size - self._by_stream.pop(stream, 0)
        if size:
            self._by_stream[stream] = size

    def counted(self, stream: int) -> int:
        """The stream's bytes in the metadata store, as far as this broker knows."""
        return self._by_stream.get(stream, 0)

    def crowded(self) -> list[int]:
        """The streams to relieve, the fullest first; none below half of the share."""
        if self._used <= self.share // 2:
            return []
        return sorted(self._by_stream, key=lambda stream: -self._by_stream[stream])
