"""Gets pieces from the cache or from their sources, and prefetches."""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from cachetools import LRUCache

from headwater.errors import ObjectNotFound
from headwater.log.commit_subscribers import CommittedChunk
from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry
from headwater.log.read.chunk_source import ChunkSource
from headwater.log.read.load_budget import LoadBudget
from headwater.log.read.pieces import Piece, PieceCache, PieceKey
from headwater.log.read.sources import Extent, PieceSource, whole
from headwater.work_budget import Turn, yield_turn

logger = logging.getLogger(__name__)

WHOLE = -1
READS_AHEAD = 8
EXTENT_LISTS = 256
LOADING_BYTES = 64 * 2**20
"""Encoded bytes that may be read at once, for all consumers."""
IDLE_CACHE_BYTES = 8 << 20
"""Size to which an idle broker shrinks the cache: enough for consumers at the end."""

EntryKey = tuple[int, int, int, str]
"""(stream, start, end, object key) of an entry. A merge moves the same range to another object."""

StoredBatches = tuple[memoryview | bytearray, Sequence[int]]
"""The batches of a chunk, which must not be changed, and the numbers of those to leave out."""


class PieceLoader:
    """Gets pieces. Concurrent requests for the same piece share one read.

    ``files`` are the sources of all entries that are not chunks, by kind. All running reads
    together have at most ``loading_bytes``, however many consumers wait for them.
    """

    def __init__(
        self,
        *,
        chunks: ChunkSource,
        files: Mapping[int, PieceSource],
        cache: PieceCache,
        loading_bytes: int = LOADING_BYTES,
    ) -> None:
        self._chunks = chunks
        self._sources: Mapping[int, PieceSource] = {INLINE: chunks, WAL: chunks, **files}
        self._cache = cache
        self._extents: LRUCache[EntryKey, Sequence[Extent]] = LRUCache(EXTENT_LISTS)
        self._budget = LoadBudget(loading_bytes)
        self._loading: dict[PieceKey, asyncio.Task[Piece]] = {}

    def keep(self, stream: int, entry: IndexEntry, chunk: bytearray) -> None:
        """Cache a chunk that is in memory: just written, or inline in an index entry."""
        piece = self._chunks.whole_piece(entry, chunk)
        self._cache.put((*_key(stream, entry), WHOLE), piece)

    def part_committed(self, landed: Sequence[CommittedChunk]) -> None:
        """See ``CommitSubscriber``."""
        for each in landed:
            if each.entry is not None:
                self.keep(each.commit.stream, each.entry, each.chunk.data)

    async def release_memory(self) -> None:
        """Drop all pieces but those used last."""
        turn = Turn()
        while self._cache.size > IDLE_CACHE_BYTES:
            self._cache.drop_oldest()
            if turn.spend():
                await yield_turn()

    def keep_inline(self, stream: int, entry: IndexEntry) -> None:
        if entry.data is not None:
            self.keep(stream, entry, bytearray(entry.data))

    def cached(self, stream: int, entry: IndexEntry, offset: int) -> Piece | None:
        """The piece that holds ``offset``, if it is in memory."""
        number = self._number(stream, entry, offset)
        return None if number is None else self._cache.get((*_key(stream, entry), number))

    def _number(self, stream: int, entry: IndexEntry, offset: int) -> int | None:
        """The number of the piece that holds ``offset``; None if the extents are not loaded."""
        key = _key(stream, entry)
        if not self._sources[entry.kind].is_large(entry) or (*key, WHOLE) in self._cache:
            return WHOLE
        extents = self._extents.get(key)
        if extents is None:
            return None
        return bisect_right(extents, offset, key=lambda extent: extent.start) - 1

    async def load(self, stream: int, entry: IndexEntry, offset: int) -> Piece:
        """The piece that holds ``offset``. Raises ``ObjectNotFound`` if its object was deleted."""
        number = self._number(stream, entry, offset)
        if number is None:
            await self.extents(stream, entry)
            number = self._number(stream, entry, offset)
            assert number is not None
        piece = self._cache.get((*_key(stream, entry), number))
        if piece is not None:
            return piece
        return await asyncio.shield(self._load_once(stream, entry, number))

    def read_ahead(self, stream: int, entry: IndexEntry | None, offset: int) -> None:
        """Begin to load the piece that holds ``offset``, if its extents are loaded."""
        if entry is None or len(self._loading) >= READS_AHEAD:
            return
        number = self._number(stream, entry, offset)
        if number is None or (*_key(stream, entry), number) in self._cache:
            return
        self._load_once(stream, entry, number)

    def _load_once(self, stream: int, entry: IndexEntry, number: int) -> asyncio.Task[Piece]:
        entry_key = _key(stream, entry)
        key = (*entry_key, number)
        task = self._loading.get(key)
        if task is None:
            extent = None if number == WHOLE else self._extents[entry_key][number]
            task = asyncio.create_task(self._load(key, entry, extent))
            self._loading[key] = task
            task.add_done_callback(lambda done: self._loaded(key, done))
        return task

    def _loaded(self, key: PieceKey, task: asyncio.Task[Piece]) -> None:
        del self._loading[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, ObjectNotFound):
            logger.warning(
                "Cannot read an index entry",
                extra={"stream": key[0], "start": key[1], "end": key[2], "error": error},
            )

    async def _load(self, key: PieceKey, entry: IndexEntry, extent: Extent | None) -> Piece:
        async with self._budget.admitted(entry.length if extent is None else extent.length):
            piece = await self._sources[entry.kind].piece(key[0], entry, extent)
            self._cache.put(key, piece)
            return piece

    async def kept_batches(
        self, wanted: Sequence[tuple[int, IndexEntry]]
    ) -> list[StoredBatches | None]:
        """The batches of chunks, from the cache if possible; None for a chunk that is gone."""
        kept: list[StoredBatches | None] = []
        missing: list[int] = []
        for number, (stream, entry) in enumerate(wanted):
            piece = self._cache.peek((*_key(stream, entry), WHOLE))
            kept.append(None if piece is None else (piece.data, ()))
            if piece is None:
                missing.append(number)
        read = await self._chunks.chunks([wanted[number] for number in missing])
        for number, chunk in zip(missing, read, strict=True):
            kept[number] = None if chunk is None else (chunk, wanted[number][1].left_out)
        return kept

    async def extents(self, stream: int, entry: IndexEntry) -> Sequence[Extent]:
        """The pieces of an entry; a small entry is a single piece."""
        source = self._sources[entry.kind]
        if not source.is_large(entry):
            return [whole(entry)]
        key = _key(stream, entry)
        known = self._extents.get(key)
        if known is None:
            known = self._extents[key] = await source.extents(entry)
        return known

    async def close(self) -> None:
        for task in list(self._loading.values()):
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)


def _key(stream: int, entry: IndexEntry) -> EntryKey:
    return (stream, entry.start, entry.end, entry.key)
