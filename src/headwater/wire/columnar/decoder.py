"""Concatenated record batches to one Arrow record batch."""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c
from numpy.typing import NDArray

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
)
from headwater.wire.batches.codecs import Buffer, Codec, decompress
from headwater.wire.batches.records import MAX_DECOMPRESSED
from headwater.wire.columnar.kernel import (
    DECODED,
    SECTION_FIELDS,
    Bytes,
    Columns,
    Int64s,
    Text,
    decode_sections,
)
from headwater.wire.columnar.schema import HEADERS, SCHEMA

MAX_PAYLOAD: Final = 2**31 - 1
"""Arrow's binary columns have 32-bit offsets, so one call decodes at most this much."""

_MIN_RECORD: Final = 7
_MIN_HEADER: Final = 2


class _BatchHeader(NamedTuple):
    """One data batch; positions are relative to the whole buffer."""

    start: int
    end: int
    base_offset: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int


def decode(buffer: Buffer, partition: int) -> Any:
    """A ``pyarrow.RecordBatch`` of ``SCHEMA`` with every record of whole batches, in order.

    The batches' base offsets must be set. Control batches have no rows. Raises ``CorruptMessage``
    if a header, CRC or compressed section is wrong. Raises ``InvalidRecord`` if records are
    malformed, their offsets do not ascend in their batch, their timestamps do not fit
    microseconds, or all of them are too large for one call.
    """
    view = memoryview(buffer)
    headers = _read_headers(view)
    payload, bounds = _gather(view, headers)
    counts = np.array([header.records for header in headers], np.int64)
    if len(payload) > MAX_PAYLOAD:
        raise InvalidRecord(f"{len(payload)} bytes of records at once, {MAX_PAYLOAD} at most")
    _check_counts(headers, bounds)
    columns = _allocate(int(counts.sum()), len(payload))
    failed = decode_sections(payload, _sections(headers, bounds), columns)
    if failed != DECODED:
        batch = headers[failed]
        raise InvalidRecord(
            f"malformed records in the batch at offset {batch.base_offset}, byte {batch.start}"
        )
    return _to_arrow(columns, headers, counts, partition)


def _read_headers(view: memoryview) -> list[_BatchHeader]:
    """Check every batch's header and CRC; control batches are left out."""
    headers = []
    start, total = 0, len(view)
    while start < total:
        if total - start < HEADER_SIZE:
            raise CorruptMessage(f"{total - start} bytes left where a batch should start")
        (
            base_offset, length, _epoch, magic, crc, attributes, last_delta, base_timestamp,
            max_timestamp, producer_id, producer_epoch, base_sequence, count,
        ) = HEADER.unpack_from(view, start)  # fmt: skip
        end = start + length + LENGTH_OVERHEAD
        if magic != MAGIC or end > total or end - start < HEADER_SIZE:
            raise CorruptMessage(f"record format {magic}, length {length} at byte {start}")
        if crc32c(view[start + CRC_START : end]) != crc:
            raise CorruptMessage(f"CRC {crc:#010x} does not match the batch at byte {start}")
        if not attributes & CONTROL:
            header = _BatchHeader(
                start, end, base_offset, attributes, last_delta, base_timestamp,
                max_timestamp, producer_id, producer_epoch, base_sequence, count,
            )  # fmt: skip
            headers.append(header)
        start = end
    return headers


def _gather(view: memoryview, headers: list[_BatchHeader]) -> tuple[Bytes, list[tuple[int, int]]]:
    """All uncompressed records in one array, and the position of each batch's records.

    If no batch is compressed, the array is the buffer itself.
    """
    if all(header.attributes & CODEC_MASK == Codec.NONE for header in headers):
        bounds = [(header.start + HEADER_SIZE, header.end) for header in headers]
        return _read_only(np.frombuffer(view, np.uint8)), bounds
    parts, bounds, size = [], [], 0
    for header in headers:
        section = view[header.start + HEADER_SIZE : header.end]
        part = decompress(header.attributes & CODEC_MASK, section, MAX_DECOMPRESSED)
        parts.append(part)
        bounds.append((size, size + len(part)))
        size += len(part)
        if size > MAX_PAYLOAD:
            raise InvalidRecord(f"more than {MAX_PAYLOAD} bytes of records at once")
    return _read_only(np.frombuffer(b"".join(parts), np.uint8)), bounds


def _read_only(array: Bytes) -> Bytes:
    """One array type, so that the kernel is compiled once."""
    array.flags.writeable = False
    return array


def _check_counts(headers: list[_BatchHeader], bounds: list[tuple[int, int]]) -> None:
    """Refuse a record count that its bytes cannot contain, because columns are allocated by it."""
    for header, (start, end) in zip(headers, bounds, strict=True):
        if header.records < 0 or header.records * _MIN_RECORD > end - start:
            raise InvalidRecord(f"{header.records} records in {end - start} bytes")


def _sections(headers: list[_BatchHeader], bounds: list[tuple[int, int]]) -> NDArray[np.int64]:
    rows = [
        (
            start, end, header.records, header.base_offset, header.base_timestamp,
            header.max_timestamp, header.attributes & LOG_APPEND_TIME, header.last_delta,
        )
        for header, (start, end) in zip(headers, bounds, strict=True)
    ]  # fmt: skip
    return np.array(rows, np.int64).reshape(len(rows), SECTION_FIELDS)


def _allocate(rows: int, size: int) -> Columns:
    """Columns for all records that ``size`` bytes can contain; unused pages cost nothing."""
    headers = size // _MIN_HEADER + 1
    return Columns(
        offset=np.empty(rows, np.int64),
        timestamp=np.empty(rows, np.int64),
        key=_text(rows, size),
        value=_text(rows, size),
        first_header=np.empty(rows + 1, np.int32),
        header_key=_text(headers, size),
        header_value=_text(headers, size),
        used=np.zeros(6, np.int64),
    )


def _text(rows: int, size: int) -> Text:
    data = np.frombuffer(pa.allocate_buffer(size), np.uint8)
    return Text(np.empty(rows + 1, np.int32), data, np.empty(rows, np.uint8))


def _to_arrow(columns: Columns, headers: list[_BatchHeader], counts: Int64s, partition: int) -> Any:
    rows, key_bytes, value_bytes, header_count, header_key_bytes, header_value_bytes = (
        int(value) for value in columns.used
    )
    columns.first_header[rows] = header_count
    pairs = pa.StructArray.from_arrays(
        [
            _binary(columns.header_key, header_count, header_key_bytes),
            _binary(columns.header_value, header_count, header_value_bytes),
        ],
        fields=list(HEADERS.value_type),
    )
    header_lists = pa.Array.from_buffers(
        HEADERS, rows, [None, pa.py_buffer(columns.first_header)], children=[pairs]
    )

    def repeated(field: str, kind: Any) -> Any:
        values = np.array([getattr(header, field) for header in headers], kind)
        return pa.array(np.repeat(values, counts))

    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(rows, partition, np.int32)),
            pa.array(columns.offset),
            pa.Array.from_buffers(
                SCHEMA.field("timestamp").type, rows, [None, pa.py_buffer(columns.timestamp)]
            ),
            _binary(columns.key, rows, key_bytes),
            _binary(columns.value, rows, value_bytes),
            header_lists,
            repeated("producer_id", np.int64),
            repeated("producer_epoch", np.int32),
            repeated("base_sequence", np.int32),
            repeated("attributes", np.int32),
        ],
        schema=SCHEMA,
    )


def _binary(text: Text, rows: int, used: int) -> Any:
    text.offsets[rows] = used
    valid = text.valid[:rows]
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(text.offsets[: rows + 1]), pa.py_buffer(text.data[:used])]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
