"""Record batches (format v2): their headers, without decoding records.

The layout, from Kafka's own ``DefaultRecordBatch``::

    0 baseOffset i64 | 8 batchLength i32 | 12 partitionLeaderEpoch i32 | 16 magic i8
    17 crc u32 | 21 attributes i16 | 23 lastOffsetDelta i32 | 27 baseTimestamp i64
    35 maxTimestamp i64 | 43 producerId i64 | 51 producerEpoch i16 | 53 baseSequence i32
    57 recordCount i32 | 61 records

The CRC covers everything from ``attributes`` on, so ``baseOffset`` and
``partitionLeaderEpoch`` are set without touching it.
"""

import struct
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from crc32c import crc32c
from msgspec import Struct

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedForMessageFormat
from headwater.wire.batches.markers import Marker, parse_marker

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
LENGTH_OVERHEAD: Final = 12
"""Bytes that ``batchLength`` does not count: itself and ``baseOffset``."""
MIN_RECORD: Final = 7
"""The bytes of a record with no key, value or header."""
CRC_START: Final = 21
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1
MAX_SEQUENCE: Final = 2**31 - 1

_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")


class BatchKind(Enum):
    """The kind of a batch for the log's rules."""

    DATA = auto()
    TRANSACTIONAL = auto()
    """Records of a producer transaction."""
    CONTROL = auto()
    """A marker that ends a producer transaction, or another record for brokers only."""


_KINDS: Final = (BatchKind.DATA, BatchKind.TRANSACTIONAL, BatchKind.CONTROL, BatchKind.CONTROL)
"""By the attributes' bits TRANSACTIONAL and CONTROL."""
_KIND_SHIFT: Final = 4


class Batch(Struct, frozen=True):
    """One checked batch: its bytes and the header fields that the log uses."""

    data: bytes | bytearray | memoryview
    count: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def kind(self) -> BatchKind:
        return _KINDS[self.attributes >> _KIND_SHIFT & 3]

    @property
    def marker(self) -> Marker | None:
        """The transaction marker in a control batch; None for other control batches."""
        return parse_marker(records_of(self))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def last_sequence(self) -> int:
        return next_sequence(self.base_sequence, self.count - 1)


def next_sequence(sequence: int, step: int) -> int:
    """Sequence numbers wrap from 2³¹ - 1 to 0.

    >>> next_sequence(2**31 - 1, 1)
    0
    """
    return (sequence + step) & MAX_SEQUENCE


def split_batches(records: bytes | bytearray | memoryview) -> list[Batch]:
    """Check a produce request's records and split them into batches.

    Raises ``UnsupportedForMessageFormat`` for a magic other than 2, ``CorruptMessage`` if lengths,
    counts or the CRC are inconsistent, ``InvalidRecord`` if the header is not allowed from a
    producer.
    """
    total = len(records)
    if not total:
        raise InvalidRecord("the request has no record batch for this partition")
    header = HEADER.unpack_from
    batches: list[Batch] = []
    start = 0
    while start < total:
        if total - start < HEADER_SIZE:
            if total - start > 16 and records[start + 16] != MAGIC:
                raise UnsupportedForMessageFormat(
                    f"record format {records[start + 16]} is not supported; use format 2"
                )
            raise CorruptMessage(
                f"{total - start} bytes left where a batch needs at least {HEADER_SIZE}"
            )
        (
            _base_offset, length, _leader_epoch, magic, crc, attributes, last_delta,
            base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count,
        ) = header(records, start)  # fmt: skip
        if magic != MAGIC:
            raise UnsupportedForMessageFormat(
                f"record format {magic} is not supported; use format 2"
            )
        size = length + LENGTH_OVERHEAD
        if size < HEADER_SIZE or size > total - start:
            raise CorruptMessage(f"batch length {length} does not fit {total - start} bytes")
        data = records if size == total else memoryview(records)[start : start + size]
        if crc32c(memoryview(data)[CRC_START:]) != crc:
            raise CorruptMessage(f"batch CRC {crc:#010x} does not match its bytes")
        if count <= 0 or last_delta != count - 1:
            raise InvalidRecord(f"{count} records with last offset delta {last_delta}")
        batch = Batch(
            data, count, attributes, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence,
        )  # fmt: skip
        batches.append(batch)
        start += size
    return batches


def trusted_batch(data: bytes | bytearray | memoryview) -> Batch:
    """One batch that was checked when it was produced."""
    fields = HEADER.unpack_from(data)
    return Batch(data, fields[12], fields[5], *fields[7:12])


def records_of(batch: Batch) -> memoryview:
    """The records of a batch, still compressed if it has a codec."""
    return memoryview(batch.data)[HEADER_SIZE:]


def batch_sizes(chunk: bytes | bytearray | memoryview) -> Iterator[tuple[int, int, int]]:
    """Walk a chunk of trusted batches: (position, size, record count) of each.

    Raises ``CorruptMessage`` if the chunk is truncated.
    """
    position, total = 0, len(chunk)
    unpack = HEADER.unpack_from
    while position < total:
        if total - position < HEADER_SIZE:
            raise CorruptMessage(f"{total - position} bytes left inside a chunk")
        fields = unpack(chunk, position)
        size = fields[1] + LENGTH_OVERHEAD
        if size < HEADER_SIZE or size > total - position:
            raise CorruptMessage(f"batch length {fields[1]} inside a chunk")
        yield position, size, fields[12]
        position += size


def set_base_offset(
    chunk: bytearray | memoryview, position: int, offset: int, leader_epoch: int
) -> None:
    """Write a batch's base offset and leader epoch in place; the CRC does not cover them."""
    _OFFSET.pack_into(chunk, position, offset)
    _LEADER_EPOCH.pack_into(chunk, position + 12, leader_epoch)
