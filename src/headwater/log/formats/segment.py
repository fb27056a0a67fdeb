r"""Segment files (``.kfs``): one stream's batches byte for byte, with a sparse ``.index`` beside.

::

    header  magic "KAFS" | version u16 | flags u16 | base offset i64 | records u32
            | created i64 | reserved u32
    bodies  record batches back to back
    footer  CRC-32 of the bodies u32 | last offset i64 | magic "END!"

    .index  magic "\0IDX" | version u16 | entries u32 | interval u32 | reserved u16,
            then per entry: offset i64 | position in the file u32

An index entry points to a batch, about ``interval`` records after the entry before it.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence

from headwater.errors import CorruptMessage, UnknownFormat
from headwater.log.formats.metadata_values import SEGMENT, IndexEntry
from headwater.log.read.pieces import Piece, make_piece
from headwater.log.read.sources import Extent, store_of
from headwater.log.reclaim.releases import object_keys
from headwater.objects.store import ObjectStore
from headwater.wire.batches.batch import batch_sizes

MAGIC = b"KAFS"
FOOTER_MAGIC = b"END!"
INDEX_MAGIC = b"\0IDX"
VERSION = 1
INTERVAL = 4096

HEADER = struct.Struct(">4sHHqIqI")
FOOTER = struct.Struct(">Iq4s")
INDEX_HEADER = struct.Struct(">4sHIIH")
INDEX_ENTRY = struct.Struct(">qI")


def encode_segment(
    chunk: bytes | bytearray | memoryview, start: int, created_ms: int, interval: int = INTERVAL
) -> tuple[list[bytes | bytearray | memoryview], bytes]:
    """A segment's parts and its index. ``chunk`` holds the batches from offset ``start`` on."""
    offset = start
    entries = bytearray()
    count = 0
    due = start
    for position, _size, records in batch_sizes(chunk):
        if offset >= due:
            entries += INDEX_ENTRY.pack(offset, HEADER.size + position)
            count += 1
            due = offset + interval
        offset += records
    head = HEADER.pack(MAGIC, VERSION, 0, start, offset - start, created_ms, 0)
    foot = FOOTER.pack(zlib.crc32(chunk), offset - 1, FOOTER_MAGIC)
    index = INDEX_HEADER.pack(INDEX_MAGIC, VERSION, count, interval, 0) + bytes(entries)
    return [head, chunk, foot], index


def parse_index(data: bytes | bytearray) -> list[tuple[int, int]]:
    """(offset, position) of each entry. Raises ``CorruptMessage`` and ``UnknownFormat``."""
    if len(data) < INDEX_HEADER.size:
        raise CorruptMessage(f"{len(data)} bytes are too few for a segment's index")
    magic, version, count, _interval, _ = INDEX_HEADER.unpack_from(data)
    if magic != INDEX_MAGIC:
        raise CorruptMessage("not a segment's index: its magic is wrong")
    if version != VERSION:
        raise UnknownFormat(f"segment index version {version}; this release knows {VERSION}")
    entries = memoryview(data)[INDEX_HEADER.size :]
    if len(entries) != count * INDEX_ENTRY.size:
        raise CorruptMessage(f"a segment's index of {count} entries has {len(entries)} bytes")
    return list(INDEX_ENTRY.iter_unpack(entries))


class SegmentSource:
    """Pieces of segments; see ``sources.PieceSource``."""

    def __init__(
        self, objects: Mapping[str, ObjectStore], *, read_bytes: int, leader_epoch: int
    ) -> None:
        self._objects = objects
        self._read_bytes = read_bytes
        self._leader_epoch = leader_epoch

    def is_large(self, entry: IndexEntry) -> bool:
        return entry.length > 2 * self._read_bytes

    async def extents(self, entry: IndexEntry) -> Sequence[Extent]:
        _, index_key = object_keys(SEGMENT, entry.key)
        marks = parse_index(await store_of(self._objects, entry).get(index_key))
        after = entry.length - FOOTER.size
        if not marks or marks[0] != (entry.start, HEADER.size) or marks[-1][1] >= after:
            raise CorruptMessage(f"the index of {entry.key} does not fit it")
        cuts = [marks[0]]
        for mark in marks:
            if mark[1] - cuts[-1][1] >= self._read_bytes:
                cuts.append(mark)
        ends = [*cuts[1:], (entry.end, after)]
        return [
            Extent(offset, end, position, stop - position, entry.max_timestamp)
            for (offset, position), (end, stop) in zip(cuts, ends, strict=True)
        ]

    async def piece(self, stream: int, entry: IndexEntry, extent: Extent | None) -> Piece:
        store = store_of(self._objects, entry)
        if extent is None:
            position, length = HEADER.size, entry.length - HEADER.size - FOOTER.size
            extent = Extent(entry.start, entry.end, position, length, entry.max_timestamp)
        chunk = await store.get_range(entry.key, extent.position, extent.length)
        return make_piece(chunk, extent.start, extent.end, leader_epoch=self._leader_epoch)
