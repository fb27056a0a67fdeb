"""Decoding and encoding the records of a single batch in Python.

A record, from Kafka's own ``DefaultRecord``; lengths and deltas are zigzag varints, and a
negative key or value length means null::

    length | attributes i8 | timestampDelta | offsetDelta | keyLength key | valueLength value
    headerCount (keyLength key valueLength value)...

Kafka's broker checks the following of a produced batch (``ProduceRequest``, ``LogValidator``).
Error codes are in parentheses.

- The header, here in ``split_batches``: magic 2 (43; Kafka 4 answers 87), CRC (2),
  ``lastOffsetDelta`` = count - 1 and count > 0 (87).
- The header, here by the caller: exactly one batch per partition (87), zstd only from Produce
  version 7 (76), no control batches from clients (87), a base sequence >= 0 with a producer id
  (87), size within ``max.message.bytes`` (10), no LogAppendTime attribute (32).
- Each record: a key on compacted topics (87). With CreateTime, a timestamp of -1 or between
  ``now - message.timestamp.before.max.ms`` and ``now + message.timestamp.after.max.ms`` (32).

In Kafka, offset deltas other than 0..n-1 are not an error: a compressed batch is rebuilt. Here they
are (``record_walk``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c
from msgspec.structs import replace

from headwater.errors import CorruptMessage, InvalidRecord
from headwater.wire.batches.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME,
    MAGIC,
    MIN_RECORD,
    NO_PRODUCER,
    NO_SEQUENCE,
    Batch,
    records_of,
)
from headwater.wire.batches.codecs import Buffer, Codec, compress, decompress, decompress_start
from headwater.wire.batches.record_walk import CUT, MALFORMED, RecordSearch, Sought
from headwater.wire.varint import decode_signed, encode_signed

MAX_DECOMPRESSED: Final = 512 * 1024 * 1024
"""Maximum uncompressed size of a batch, far above any real batch."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``is_control`` marks records of control batches, which clients do not see."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    is_control: bool = False


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int


def decode_batch(data: Buffer, *, base_offset: int | None = None) -> list[Record]:
    """The records of one batch; ``base_offset`` replaces the header's.

    Raises ``CorruptMessage`` if header, CRC or compression are wrong, ``InvalidRecord`` if the
    records are, ``UnsupportedCompressionType`` for an unknown codec.
    """
    batch = _open(data, base_offset)
    is_control = bool(batch.attributes & CONTROL)
    records = []
    for timestamp, offset, start, end in batch.walk():
        key, position = _read_bytes(batch.payload, start, end)
        value, position = _read_bytes(batch.payload, position, end)
        headers = _read_headers(batch.payload, position, end)
        records.append(Record(offset, timestamp, key, value, headers, is_control))
    return records


def encode_batch(
    records: Sequence[Record],
    *,
    codec: int = Codec.NONE,
    base_offset: int | None = None,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = -1,
) -> bytes:
    """Encode a batch from records in offset order.

    ``attributes`` are the batch's flags without the codec. ``base_offset`` defaults to the first
    record's offset.
    """
    if not records:
        raise InvalidRecord("a batch needs at least one record")
    base = records[0].offset if base_offset is None else base_offset
    base_timestamp = records[0].timestamp
    payload = b"".join(_encode_record(record, base, base_timestamp) for record in records)
    packed = compress(codec, payload)
    header = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        header, 0,
        base, HEADER_SIZE + len(packed) - LENGTH_OVERHEAD, leader_epoch, MAGIC, 0,
        attributes & ~CODEC_MASK | codec, records[-1].offset - base, base_timestamp,
        max(record.timestamp for record in records), producer_id, producer_epoch,
        base_sequence, len(records),
    )  # fmt: skip
    return _seal(header + packed)


def recompress(batch: Batch, codec: int, payload: Buffer | None = None) -> Batch:
    """The same batch with its records compressed by another codec. Records are not checked.

    ``payload`` are its uncompressed records, if available.
    """
    if batch.codec == codec:
        return batch
    if payload is None:
        payload = decompress(batch.codec, records_of(batch), MAX_DECOMPRESSED)
    packed = compress(codec, payload)
    attributes = batch.attributes & ~CODEC_MASK | codec
    data = bytearray(batch.data[:HEADER_SIZE]) + packed
    data[8:12] = (len(data) - LENGTH_OVERHEAD).to_bytes(4, "big")
    data[21:23] = attributes.to_bytes(2, "big", signed=True)
    return replace(batch, data=_seal(data), attributes=attributes)


def with_max_timestamp(batch: Batch, timestamp: int) -> Batch:
    """The same batch with ``timestamp`` as its maximum timestamp."""
    if batch.max_timestamp == timestamp:
        return batch
    data = bytearray(batch.data)
    data[35:43] = timestamp.to_bytes(8, "big", signed=True)
    return replace(batch, data=_seal(data), max_timestamp=timestamp)


def with_log_append_time(batch: Batch, now_ms: int) -> Batch:
    """The same batch with LogAppendTime ``now_ms``; only the header changes."""
    attributes = batch.attributes | LOG_APPEND_TIME
    data = bytearray(batch.data)
    data[21:23] = attributes.to_bytes(2, "big", signed=True)
    data[35:43] = now_ms.to_bytes(8, "big", signed=True)
    return replace(batch, data=_seal(data), attributes=attributes, max_timestamp=now_ms)


def search_batch(
    data: Buffer, timestamp: int, least: int, search: RecordSearch, room: int
) -> Sought | None:
    """The first record at or after that timestamp with an offset delta of at least ``least``.

    None if it is not within the first ``room`` decompressed bytes. Raises as decoding does.
    """
    header = _read_header(data)
    view = memoryview(data)[HEADER_SIZE:]
    payload, whole = decompress_start(header.attributes & CODEC_MASK, view, room)
    count, stamped = header.records, bool(header.attributes & LOG_APPEND_TIME)
    if whole and (count < 0 or count * MIN_RECORD > len(payload)):
        raise InvalidRecord(f"{count} records in {len(payload)} bytes")
    base = header.max_timestamp if stamped else header.base_timestamp
    sought = search(payload, len(payload), count, base, timestamp, least, stamped=stamped)
    if sought.delta >= 0:
        return sought
    if sought.status == MALFORMED or (whole and sought.status == CUT):
        raise InvalidRecord("a record is malformed")
    return sought if whole else None


@dataclass(frozen=True, slots=True)
class _OpenBatch:
    payload: memoryview
    count: int
    attributes: int
    base_offset: int
    base_timestamp: int
    max_timestamp: int

    def walk(self) -> Iterator[tuple[int, int, int, int]]:
        """(timestamp, offset, position of the key's length, end) of each record."""
        payload, position, total = self.payload, 0, len(self.payload)
        for _ in range(self.count):
            size, position = decode_signed(payload, position, total)
            end = position + size
            if size < MIN_RECORD - 1 or end > total:
                raise InvalidRecord(f"a record of {size} bytes in {total - position}")
            delta, start = decode_signed(payload, position + 1, end)
            offset_delta, start = decode_signed(payload, start, end)
            stamped = self.attributes & LOG_APPEND_TIME
            timestamp = self.max_timestamp if stamped else self.base_timestamp + delta
            yield timestamp, self.base_offset + offset_delta, start, end
            position = end
        if position != total:
            raise InvalidRecord(f"{total - position} bytes follow the last record")


class _Header(NamedTuple):
    base_offset: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    records: int


def _read_header(data: Buffer) -> _Header:
    """Check a batch's header and CRC."""
    if len(data) < HEADER_SIZE:
        raise CorruptMessage(f"{len(data)} bytes where a batch has at least {HEADER_SIZE}")
    (
        base_offset, length, _leader_epoch, magic, crc, attributes, _last_delta,
        base_timestamp, max_timestamp, _producer, _epoch, _sequence, count,
    ) = HEADER.unpack_from(data)  # fmt: skip
    if magic != MAGIC or length + LENGTH_OVERHEAD != len(data):
        raise CorruptMessage(f"record format {magic}, length {length}, in {len(data)} bytes")
    if crc32c(memoryview(data)[CRC_START:]) != crc:
        raise CorruptMessage(f"batch CRC {crc:#010x} does not match its bytes")
    return _Header(base_offset, attributes, base_timestamp, max_timestamp, count)


def _open(data: Buffer, base_offset: int | None) -> _OpenBatch:
    """Check a batch's header and CRC, and decompress its records."""
    header = _read_header(data)
    view = memoryview(data)[HEADER_SIZE:]
    payload = decompress(header.attributes & CODEC_MASK, view, MAX_DECOMPRESSED)
    if header.records < 0 or header.records * MIN_RECORD > len(payload):
        raise InvalidRecord(f"{header.records} records in {len(payload)} bytes")
    base = header.base_offset if base_offset is None else base_offset
    return _OpenBatch(
        payload,
        header.records,
        header.attributes,
        base,
        header.base_timestamp,
        header.max_timestamp,
    )


def _read_bytes(data: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = decode_signed(data, position, end)
    if size < 0:
        return None, position
    if size > end - position:
        raise InvalidRecord(f"{size} bytes where a record has {end - position} left")
    return bytes(data[position : position + size]), position + size


def _read_headers(
    data: memoryview, position: int, end: int
) -> tuple[tuple[bytes, bytes | None], ...]:
    """The headers, which must end at the end of the record."""
    count, position = decode_signed(data, position, end)
    if count < 0 or count > end - position:
        raise InvalidRecord(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header has no key")
        value, position = _read_bytes(data, position, end)
        headers.append((key, value))
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow a record's headers")
    return tuple(headers)


def _encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\0",
        encode_signed(record.timestamp - base_timestamp),
        encode_signed(record.offset - base_offset),
    ]
    _append_bytes(parts, record.key)
    _append_bytes(parts, record.value)
    parts.append(encode_signed(len(record.headers)))
    for key, value in record.headers:
        _append_bytes(parts, key)
        _append_bytes(parts, value)
    body = b"".join(parts)
    return encode_signed(len(body)) + body


def _append_bytes(parts: list[bytes], data: bytes | None) -> None:
    if data is None:
        parts.append(encode_signed(-1))
    else:
        parts += [encode_signed(len(data)), data]


def _seal(data: bytearray) -> bytes:
    """Compute and write the CRC."""
    with memoryview(data) as view:
        data[17:21] = crc32c(view[CRC_START:]).to_bytes(4, "big")
    return bytes(data)
