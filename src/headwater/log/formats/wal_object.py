"""WAL objects (``.wo``): the chunks of many streams, as one or more sections back to back.

A flush writes one section. On a store whose objects are written whole it is the object; where
objects grow, sections follow each other, and bytes of a flush that failed may lie between them.
::

    header       magic "HWWO" | version u16 | flags u16 | created i64 | length u64
                 | chunks u32 | blocks u32
    chunk index  per chunk, sorted by stream: stream u64 | position in section u64 | length u32
                 | records u32 | batches u32 | first block u32 | max timestamp i64
    block index  per block: position in chunk u32 | first record u32 | max timestamp i64
    starts       per chunk: its first offset i64; only with the flag STARTS
    bodies       the chunks' record batches back to back, bytes as the producers sent them
    footer       CRC32C of all before it u32 | magic "OWWH"

A block is a run of whole batches of about 64 KiB, so that a reader finds an offset or a
timestamp in a large chunk with one small read. Merged chunks have their offsets already when they
are written: their object states them, so that a restore can put them back. The other flags are
reserved for a codec and key id; a reader that does not know ``STARTS`` passes over the table.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from headwater.errors import CorruptMessage, UnknownFormat
from headwater.wire.batches.batch import Batch, batch_sizes, trusted_batch

Buffer = bytes | bytearray | memoryview

MAGIC = b"HWWO"
FOOTER_MAGIC = b"OWWH"
VERSION = 1
BLOCK_BYTES = 64 * 1024
STARTS = 1
UNKNOWN_START = -1

HEADER = struct.Struct(">4sHHqQII")
CHUNK = struct.Struct(">QQIIIIq")
BLOCK = struct.Struct(">IIq")
START = struct.Struct(">q")
FOOTER = struct.Struct(">I4s")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One stream's batches, and their bytes back to back, in one buffer or several."""

    stream: int
    batches: Sequence[Batch]
    parts: Sequence[Buffer]
    length: int

    @property
    def data(self) -> bytearray:
        """The bytes of a chunk that was joined."""
        (data,) = self.parts
        assert isinstance(data, bytearray)
        return data

    @property
    def records(self) -> int:
        return sum(batch.count for batch in self.batches)

    @property
    def max_timestamp(self) -> int:
        return max(batch.max_timestamp for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Placement:
    """The positions of a chunk and its block index in the section."""

    position: int
    blocks_position: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Block:
    """A run of batches: its position in the chunk and its first record's number."""

    position: int
    first_record: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """A chunk as the object's own index describes it."""

    stream: int
    position: int
    length: int
    records: int
    batches: int
    max_timestamp: int
    blocks_position: int
    """Where its block index begins in the section."""
    blocks: int
    start: int = UNKNOWN_START
    """Its first offset, if its object states it."""


def join_batches(stream: int, batches: Sequence[Batch]) -> Chunk:
    """The chunk of these batches, in a new buffer."""
    data = bytearray().join([batch.data for batch in batches])
    return Chunk(stream, batches, [data], len(data))


def concatenate_chunks(stream: int, chunks: Sequence[tuple[Buffer, Sequence[int]]]) -> Chunk:
    """One chunk of several, each given with the numbers of its batches that are left out.

    Their bytes are not copied.
    """
    batches: list[Batch] = []
    parts: list[Buffer] = []
    for data, left_out in chunks:
        view = memoryview(data)
        own = [
            trusted_batch(view[position : position + size])
            for position, size, _ in batch_sizes(data)
        ]
        if left_out:
            skipped = frozenset(left_out)
            own = [batch for number, batch in enumerate(own) if number not in skipped]
            parts += [batch.data for batch in own]
        else:
            parts.append(data)
        batches += own
    return Chunk(stream, batches, parts, sum(len(part) for part in parts))


def encode_section(
    chunks: Sequence[Chunk], created_ms: int, starts: Sequence[int] = ()
) -> tuple[list[Buffer], list[Placement]]:
    """The section's parts, ready to be written, and each chunk's placement.

    ``chunks`` are sorted by stream; their buffers are not copied and must not change before
    the object is written. ``starts`` are their first offsets, if they are known.
    """
    blocks = [_blocks(chunk.batches) for chunk in chunks]
    block_count = sum(map(len, blocks))
    blocks_start = HEADER.size + CHUNK.size * len(chunks)
    position = blocks_start + BLOCK.size * block_count + START.size * len(starts)
    length = position + sum(chunk.length for chunk in chunks) + FOOTER.size
    flags = STARTS if starts else 0
    head = bytearray(
        HEADER.pack(MAGIC, VERSION, flags, created_ms, length, len(chunks), block_count)
    )
    placements: list[Placement] = []
    first_block = 0
    for chunk, own in zip(chunks, blocks, strict=True):
        placements.append(Placement(position, blocks_start + BLOCK.size * first_block, len(own)))
        head += CHUNK.pack(
            chunk.stream, position, chunk.length, chunk.records, len(chunk.batches),
            first_block, chunk.max_timestamp,
        )  # fmt: skip
        position += chunk.length
        first_block += len(own)
    for own in blocks:
        for block in own:
            head += BLOCK.pack(block.position, block.first_record, block.max_timestamp)
    for _, start in zip(chunks, starts, strict=bool(starts)):
        head += START.pack(start)
    parts: list[Buffer] = [head, *(part for chunk in chunks for part in chunk.parts)]
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    parts.append(FOOTER.pack(checksum, FOOTER_MAGIC))
    return parts, placements


def _blocks(batches: Sequence[Batch]) -> list[Block]:
    blocks: list[Block] = []
    position = records = 0
    start = first_record = 0
    max_timestamp = -1
    for batch in batches:
        if position - start >= BLOCK_BYTES:
            blocks.append(Block(start, first_record, max_timestamp))
            start, first_record, max_timestamp = position, records, -1
        max_timestamp = max(max_timestamp, batch.max_timestamp)
        position += batch.size
        records += batch.count
    blocks.append(Block(start, first_record, max_timestamp))
    return blocks


def parse_blocks(data: bytes | bytearray) -> list[Block]:
    """Decode a chunk's block index."""
    return [Block(*fields) for fields in BLOCK.iter_unpack(data)]


def parse_section(data: bytes | bytearray) -> Iterator[ChunkInfo]:
    """Check a whole section and list its chunks, with positions relative to the section.

    Raises ``CorruptMessage`` if its checksum or lengths do not agree, ``UnknownFormat``
    if it has a newer version.
    """
    if len(data) < HEADER.size + FOOTER.size:
        raise CorruptMessage(f"{len(data)} bytes are too few for a WAL object")
    magic, version, flags, _created, length, chunks, blocks = HEADER.unpack_from(data)
    checksum, footer_magic = FOOTER.unpack_from(data, len(data) - FOOTER.size)
    if magic != MAGIC or footer_magic != FOOTER_MAGIC:
        raise CorruptMessage("not a WAL object: its magic is wrong")
    if version != VERSION:
        raise UnknownFormat(f"WAL object version {version}; this release knows {VERSION}")
    if length != len(data):
        raise CorruptMessage(f"a section of {length} bytes has {len(data)}")
    if crc32c(memoryview(data)[: -FOOTER.size]) != checksum:
        raise CorruptMessage("a WAL object's checksum does not match its bytes")
    starts = HEADER.size + CHUNK.size * chunks + BLOCK.size * blocks
    bodies = starts + (START.size * chunks if flags & STARTS else 0)
    if bodies + FOOTER.size > len(data):
        raise CorruptMessage(f"{chunks} chunks and {blocks} blocks do not fit the object")
    rows = [CHUNK.unpack_from(data, HEADER.size + CHUNK.size * row) for row in range(chunks)]
    blocks_start = HEADER.size + CHUNK.size * chunks
    for number, row in enumerate(rows):
        stream, position, length, records, batches, first, max_timestamp = row
        next_first = rows[number + 1][5] if number + 1 < chunks else blocks
        if position < bodies or position + length > len(data) - FOOTER.size:
            raise CorruptMessage(f"chunk {number} lies outside of its object")
        yield ChunkInfo(
            stream,
            position,
            length,
            records,
            batches,
            max_timestamp,
            blocks_start + BLOCK.size * first,
            next_first - first,
            START.unpack_from(data, starts + START.size * number)[0]
            if flags & STARTS
            else UNKNOWN_START,
        )


def find_sections(
    data: bytes | bytearray, position: int = 0
) -> Iterator[tuple[int, int, list[ChunkInfo]]]:
    """Every whole section from ``position`` on: where it begins, when it was made, its chunks.

    Bytes of flushes that failed are passed over.
    """
    view = memoryview(data)
    while 0 <= position <= len(data) - HEADER.size:
        _magic, _version, _flags, created_ms, length, _chunks, _blocks = HEADER.unpack_from(
            data, position
        )
        try:
            chunks = list(parse_section(bytearray(view[position : position + length])))
        except CorruptMessage:
            position = data.find(MAGIC, position + 1)
            continue
        yield position, created_ms, chunks
        position += length
