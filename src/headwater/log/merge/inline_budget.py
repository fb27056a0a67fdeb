"""How many bytes of records may be in the metadata store, so that it never fills up.

Small flushes are committed inline, and a merge moves them to objects later. A store limits how many
bytes may wait for that (``Limits.inline_bytes``), and each live broker has an equal share. Above
half of its share a broker moves inline entries to objects; above its share it flushes to objects
only.

A broker counts its own commits, and corrects the count when it plans a merge, which reads the
entries of a stream. It does not know what its last process left until the first sweep. Until then
the store may have twice the limit.
"""

from collections.abc import Callable, Sequence

from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import INLINE


class InlineBudget:
    """One broker's count, by stream. ``brokers`` returns how many brokers share the ``limit``."""

    def __init__(self, limit: int, brokers: Callable[[], int]) -> None:
        self._limit = limit
        self._brokers = brokers
        self._by_stream: dict[int, int] = {}
        self._used = 0

    @property
    def used(self) -> int:
        """Inline bytes that this broker knows of."""
        return self._used

    @property
    def share(self) -> int:
        return self._limit // max(1, self._brokers())

    def admits(self, size: int) -> bool:
        """Whether a flush of ``size`` bytes may be committed inline."""
        return self._used + size <= self.share

    def added(self, stream: int, size: int) -> None:
        """``size`` bytes were committed inline, or moved to an object if it is negative."""
        self.measured(stream, max(0, self._by_stream.get(stream, 0) + size))

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """See ``CommitSubscriber``."""
        for each in landed:
            if each.entry is not None and each.entry.kind == INLINE:
                self.added(each.commit.stream, each.entry.length)

    def measured(self, stream: int, size: int) -> None:
        """The stream's entries have ``size`` inline bytes."""
        self._used += size - self._by_stream.pop(stream, 0)
        if size:
            self._by_stream[stream] = size

    def counted(self, stream: int) -> int:
        """The stream's inline bytes that this broker knows of."""
        return self._by_stream.get(stream, 0)

    def crowded(self) -> list[int]:
        """The streams to relieve, fullest first; empty below half of the share."""
        if self._used <= self.share // 2:
            return []
        return sorted(self._by_stream, key=lambda stream: -self._by_stream[stream])
