"""Advances a stream's log start, and removes the index entries below it.

DeleteRecords and retention both advance ``log_start``, which takes effect at once. The entries
below it are removed later, page by page. Each page is one transaction that is guarded by ``layout``
and also notes the released chunks (``releases``).
"""

from collections.abc import Sequence

from headwater.clock import Clock
from headwater.errors import OffsetOutOfRange, UnknownTopicOrPartition
from headwater.log.formats.metadata_values import IndexEntry, Layout, Tail
from headwater.log.read.index import IndexReader
from headwater.log.read.streams import Streams
from headwater.log.reclaim.releases import release
from headwater.meta import keys
from headwater.meta.store import MetadataStore, Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import decode, encode

PAGE = 64
HIGH_WATERMARK = -1


class LogTrimmer:
    """Advances log starts and removes the entries below them."""

    def __init__(
        self, meta: MetadataStore, streams: Streams, index: IndexReader, clock: Clock
    ) -> None:
        self._meta = meta
        self._streams = streams
        self._index = index
        self._clock = clock

    async def advance(self, stream: int, before: int) -> int:
        """Advance the log start to ``before`` if it is lower; returns the log start.

        Raises ``OffsetOutOfRange`` above the high watermark, ``UnknownTopicOrPartition`` if the
        topic was deleted.
        """
        layout_key, tail_key = keys.layout(0, stream), keys.tail(0, stream)

        def decide(values: Values) -> tuple[Writes, int]:
            writes = Writes()
            tail_entry = values[tail_key]
            tail = Tail() if tail_entry is None else decode(Tail, tail_entry.value)
            if tail.deleted:
                raise UnknownTopicOrPartition("the topic was deleted")
            target = tail.high_watermark if before == HIGH_WATERMARK else before
            if not 0 <= target <= tail.high_watermark:
                raise OffsetOutOfRange(f"offset {before} is not in [0, {tail.high_watermark}]")
            layout = _layout(values, layout_key)
            if target > layout.log_start:
                layout.log_start = target
                layout.generation += 1
                writes.put(layout_key, encode(layout))
            return writes, layout.log_start

        log_start = await transact(self._meta, [layout_key, tail_key], decide)
        state = self._streams[stream]
        state.log_start = max(state.log_start, log_start)
        return log_start

    async def clean(self, stream: int) -> int:
        """Remove the index entries that are completely below the log start; returns how many."""
        removed = 0
        while True:
            stored = await self._meta.get(keys.layout(0, stream))
            if stored is None:
                return removed
            layout = decode(Layout, stored.value)
            page = await self._index.page(stream, 0, PAGE)
            gone = [entry for entry in page if entry.end <= layout.log_start]
            if not gone:
                return removed
            await self._remove(stream, gone, layout.generation)
            removed += len(gone)

    async def _remove(self, stream: int, gone: Sequence[IndexEntry], generation: int) -> None:
        layout_key = keys.layout(0, stream)

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            layout = _layout(values, layout_key)
            if layout.generation != generation:
                return writes, None  # The index changed, or this removal was applied: look again.
            layout.generation += 1
            layout.trimmed_size = gone[-1].size
            writes.put(layout_key, encode(layout))
            writes.delete_range(
                keys.index(0, stream), keys.index_entry(0, stream, gone[-1].end + 1)
            )
            release(writes, stream, gone, layout.generation, self._clock.now_ms())
            return writes, None

        await transact(self._meta, [layout_key], decide)


def _layout(values: Values, key: str) -> Layout:
    entry = values[key]
    return Layout() if entry is None else decode(Layout, entry.value)
