"""Loading pieces from the object store or, inline, from the metadata store; and ahead of use.

A small chunk is one piece. A large one is read in pieces of ``read_bytes``, found by its block
index, so that a fetch never reads much more than it sends.
"""

import asyncio
import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import KafkaStorageError, ObjectNotFound, StoreError
from headwater.log.formats import INLINE, IndexEntry
from headwater.log.pieces import Piece, PieceCache, PieceKey, make_piece
from headwater.log.wal_object import BLOCK, Block, parse_blocks
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

WHOLE = -1
READS_AHEAD = 8
BLOCK_INDEXES = 256


@dataclass(frozen=True, slots=True)
class Extent:
    """One piece's place inside a large chunk."""

    start: int
    end: int
    position: int
    length: int
    max_timestamp: int


class PieceLoader:
    """Gets pieces, each read once however many ask for it at the same time."""

    def __init__(
        self,
        *,
        meta: MetadataStore,
        objects: dict[str, ObjectStore],
        cache: PieceCache,
        read_bytes: int,
        leader_epoch: int,
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._cache = cache
        self._read_bytes = read_bytes
        self._leader_epoch = leader_epoch
        self._extents: OrderedDict[tuple[int, int, int], list[Extent]] = OrderedDict()
        self._loading: dict[PieceKey, asyncio.Task[Piece]] = {}

    def keep(self, stream: int, entry: IndexEntry, chunk: bytearray) -> None:
        """A chunk came by: written here, or inline in an index entry."""
        piece = make_piece(
            chunk,
            entry.start,
            entry.end,
            leader_epoch=self._leader_epoch,
            left_out=entry.left_out,
        )
        self._cache.put((stream, entry.start, entry.end, WHOLE), piece)

    def keep_inline(self, stream: int, entry: IndexEntry) -> None:
        if entry.data is not None:
            self.keep(stream, entry, bytearray(entry.data))

    def cached(self, stream: int, entry: IndexEntry, offset: int) -> Piece | None:
        """The piece that holds ``offset``, if it is in memory."""
        number = self._number(stream, entry, offset)
        return None if number is None else self._cache.get((stream, entry.start, entry.end, number))

    def _number(self, stream: int, entry: IndexEntry, offset: int) -> int | None:
        """Which piece of the entry holds ``offset``; None while its block index is not here."""
        if not self._is_large(entry) or (stream, entry.start, entry.end, WHOLE) in self._cache:
            return WHOLE
        extents = self._extents.get((stream, entry.start, entry.end))
        if extents is None:
            return None
        return bisect_right(extents, offset, key=lambda extent: extent.start) - 1

    def _is_large(self, entry: IndexEntry) -> bool:
        return entry.kind != INLINE and entry.length > 2 * self._read_bytes and not entry.left_out

    async def load(self, stream: int, entry: IndexEntry, offset: int) -> Piece:
        """The piece that holds ``offset``. Raises ``ObjectNotFound`` where it is gone."""
        number = self._number(stream, entry, offset)
        if number is None:
            await self.extents(stream, entry)
            number = self._number(stream, entry, offset)
            assert number is not None
        piece = self._cache.get((stream, entry.start, entry.end, number))
        if piece is not None:
            return piece
        return await asyncio.shield(self._load_once(stream, entry, number))

    def read_ahead(self, stream: int, entry: IndexEntry | None, offset: int) -> None:
        """Begin to load the piece that holds ``offset``, if that is cheap to decide."""
        if entry is None or len(self._loading) >= READS_AHEAD:
            return
        number = self._number(stream, entry, offset)
        if number is None or (stream, entry.start, entry.end, number) in self._cache:
            return
        self._load_once(stream, entry, number)

    def _load_once(self, stream: int, entry: IndexEntry, number: int) -> asyncio.Task[Piece]:
        key = (stream, entry.start, entry.end, number)
        task = self._loading.get(key)
        if task is None:
            extent = None if number == WHOLE else self._extents[key[:3]][number]
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
            logger.warning("stream %d: cannot read %d to %d: %s", *key[:3], error)

    async def _load(self, key: PieceKey, entry: IndexEntry, extent: Extent | None) -> Piece:
        if extent is None:
            chunk, start, end = await self.chunk(key[0], entry), entry.start, entry.end
        else:
            start, end = extent.start, extent.end
            chunk = await self._store(entry).get_range(
                entry.key, entry.position + extent.position, extent.length
            )
        piece = make_piece(
            chunk,
            start,
            end,
            leader_epoch=self._leader_epoch,
            left_out=entry.left_out,
        )
        self._cache.put(key, piece)
        return piece

    async def kept_batches(
        self, stream: int, entry: IndexEntry
    ) -> tuple[memoryview | bytearray, Sequence[int]]:
        """An entry's batches and the numbers of those to leave out; from memory where it has them.

        The bytes are not the caller's to change.
        """
        piece = self._cache.peek((stream, entry.start, entry.end, WHOLE))
        if piece is not None:
            return piece.data, ()
        return await self.chunk(stream, entry), entry.left_out

    async def chunk(self, stream: int, entry: IndexEntry) -> bytearray:
        """An entry's whole chunk, bytes as they were produced, in a buffer of the caller's."""
        if entry.kind != INLINE:
            return await self._store(entry).get_range(entry.key, entry.position, entry.length)
        if entry.data is not None:
            return bytearray(entry.data)
        stored = await self._meta.get(keys.index_entry(0, stream, entry.end))
        found = None if stored is None else decode(IndexEntry, stored.value)
        if found is None or found.data is None or found.start != entry.start:
            raise ObjectNotFound(f"the inline entry of stream {stream} at {entry.end} moved")
        return bytearray(found.data)

    async def extents(self, stream: int, entry: IndexEntry) -> list[Extent]:
        """How a large chunk is cut into pieces; a small one is a single piece."""
        if not self._is_large(entry):
            return [Extent(entry.start, entry.end, 0, entry.length, entry.max_timestamp)]
        key = (stream, entry.start, entry.end)
        known = self._extents.get(key)
        if known is None:
            position, count = entry.blocks
            data = await self._store(entry).get_range(entry.key, position, count * BLOCK.size)
            known = self._extents[key] = _cut(entry, parse_blocks(data), self._read_bytes)
        self._extents.move_to_end(key)
        while len(self._extents) > BLOCK_INDEXES:
            self._extents.popitem(last=False)
        return known

    def _store(self, entry: IndexEntry) -> ObjectStore:
        store = self._objects.get(entry.store)
        if store is None:
            raise StoreError(f"no object store {entry.store!r} is configured")
        return store

    async def close(self) -> None:
        for task in list(self._loading.values()):
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)


def _cut(entry: IndexEntry, blocks: list[Block], read_bytes: int) -> list[Extent]:
    if not blocks:
        raise KafkaStorageError(f"the chunk of {entry.key} at {entry.position} has no block index")
    extents: list[Extent] = []
    first = 0
    for number in range(1, len(blocks) + 1):
        last = number == len(blocks)
        position = entry.length if last else blocks[number].position
        if not last and position - blocks[first].position < read_bytes:
            continue
        extents.append(
            Extent(
                entry.start + blocks[first].first_record,
                entry.end if last else entry.start + blocks[number].first_record,
                blocks[first].position,
                position - blocks[first].position,
                max(block.max_timestamp for block in blocks[first:number]),
            )
        )
        first = number
    return extents
