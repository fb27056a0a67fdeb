"""Chunks: from WAL objects by ranged reads or, inline, from the metadata store.

A small chunk is one piece. A large chunk is read in pieces of ``read_bytes``, which its block index
locates, so that a fetch does not read much more than it sends.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from headwater.errors import KafkaStorageError, ObjectNotFound, StoreError
from headwater.log.formats.metadata_values import INLINE, IndexEntry
from headwater.log.formats.wal_object import BLOCK, Block, parse_blocks
from headwater.log.read.pieces import Piece, make_piece
from headwater.log.read.ranged_reads import RangedRead, plan_reads
from headwater.log.read.sources import Extent, store_of
from headwater.meta import keys
from headwater.meta.store import MetadataStore
from headwater.meta.values import decode
from headwater.objects.store import ObjectStore

logger = logging.getLogger(__name__)

READS_AT_ONCE = 4
"""Concurrent reads of one ``chunks`` call."""
Chunk = bytearray | memoryview


class ChunkSource:
    """See ``sources.PieceSource``."""

    def __init__(
        self,
        meta: MetadataStore,
        objects: Mapping[str, ObjectStore],
        *,
        read_bytes: int,
        leader_epoch: int,
    ) -> None:
        self._meta = meta
        self._objects = objects
        self._read_bytes = read_bytes
        self._leader_epoch = leader_epoch

    def is_large(self, entry: IndexEntry) -> bool:
        return entry.kind != INLINE and entry.length > 2 * self._read_bytes and not entry.left_out

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        position, count = entry.blocks
        store = store_of(self._objects, entry)
        data = await store.get_range(entry.key, position, count * BLOCK.size)
        return _cut(entry, parse_blocks(data), self._read_bytes)

    async def piece(self, stream: int, entry: IndexEntry, extent: Extent | None) -> Piece:
        if extent is None:
            return self.whole_piece(entry, await self.chunk(stream, entry))
        chunk = await store_of(self._objects, entry).get_range(
            entry.key, entry.position + extent.position, extent.length
        )
        return make_piece(chunk, extent.start, extent.end, leader_epoch=self._leader_epoch)

    def whole_piece(self, entry: IndexEntry, chunk: bytearray) -> Piece:
        """The piece of a chunk that is in memory. The piece takes over the buffer."""
        return make_piece(
            chunk,
            entry.start,
            entry.end,
            leader_epoch=self._leader_epoch,
            left_out=entry.left_out,
        )

    async def chunk(self, stream: int, entry: IndexEntry) -> bytearray:
        """The whole chunk of an entry, as it was produced, in a new buffer."""
        if entry.kind != INLINE:
            store = store_of(self._objects, entry)
            return await store.get_range(entry.key, entry.position, entry.length)
        if entry.data is not None:
            return bytearray(entry.data)
        stored = await self._meta.get(keys.index_entry(0, stream, entry.end))
        found = None if stored is None else decode(IndexEntry, stored.value)
        if found is None or found.data is None or found.start != entry.start:
            raise ObjectNotFound(f"the inline entry of stream {stream} at {entry.end} was replaced")
        return bytearray(found.data)

    async def chunks(self, wanted: Sequence[tuple[int, IndexEntry]]) -> list[Chunk | None]:
        """The whole chunks of the entries of many streams; None for a chunk that cannot be read.

        Neighbouring chunks of an object are read with one request, several requests run at once.
        Raises the store's error if all requests fail.
        """
        found: list[Chunk | None] = [None] * len(wanted)
        entries = [entry for _, entry in wanted]
        turns = asyncio.Semaphore(READS_AT_ONCE)

        async def read(span: RangedRead) -> None:
            store = store_of(self._objects, entries[span.members[0]])
            async with turns:
                data = memoryview(await store.get_range(span.key, span.position, span.length))
            for number in span.members:
                begin = entries[number].position - span.position
                found[number] = data[begin : begin + entries[number].length]

        async def read_inline(number: int) -> None:
            async with turns:
                found[number] = await self.chunk(*wanted[number])

        inline = [number for number, entry in enumerate(entries) if entry.kind == INLINE]
        outcomes = await asyncio.gather(
            *map(read, plan_reads(entries)), *map(read_inline, inline), return_exceptions=True
        )
        failures = [outcome for outcome in outcomes if outcome is not None]
        bad = [failure for failure in failures if not isinstance(failure, ObjectNotFound)]
        for failure in bad:
            if len(failures) == len(outcomes) or not isinstance(failure, StoreError):
                raise failure
        if bad:
            logger.warning(
                "Some reads failed",
                extra={"failed": len(bad), "reads": len(outcomes), "error": bad[0]},
            )
        return found


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
