"""Conversion of an Arrow record batch to Kafka record batches, to serve compacted ranges."""

from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c
from numpy.typing import NDArray

from headwater.wire.batches.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_PRODUCER,
    NO_SEQUENCE,
)
from headwater.wire.batches.codecs import Codec, compress
from headwater.wire.columnar.encode_kernel import (
    MAX_HEADER_OVERHEAD,
    MAX_RECORD_OVERHEAD,
    ColumnsToEncode,
    encode_rows,
)
from headwater.wire.columnar.kernel import Int64s, Text
from headwater.wire.columnar.schema import SCHEMA

COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
MAX_OFFSET_DELTA: Final = 2**31 - 1


def encode(
    table: Any, start: int, end: int, *, batch_bytes: int, codec: int = Codec.NONE
) -> list[memoryview | bytes]:
    """Encode the rows of a ``pyarrow.RecordBatch`` as batches that cover ``[start, end)``.

    There is at least one row. Rows have at least the columns offset, timestamp, key, value and
    headers of ``SCHEMA``, and are sorted by offset within the range. Each batch's
    ``lastOffsetDelta`` reaches to the next batch, so that a reader skips removed rows. Batches have
    no producer id. A batch has about ``batch_bytes`` before compression, or a single larger record.
    The range is shorter than 2³¹ offsets. Uncompressed batches are views of one larger buffer.
    """
    if not table.num_rows or end - start > MAX_OFFSET_DELTA:
        raise ValueError(f"{table.num_rows} rows in the range [{start}, {end})")
    rows = _rows(table)
    capacity = (
        table.num_rows * (MAX_RECORD_OVERHEAD + HEADER_SIZE)
        + len(rows.header_key.valid) * MAX_HEADER_OVERHEAD
        + sum(_used(text) for text in (rows.key, rows.value, rows.header_key, rows.header_value))
    )
    output = np.empty(capacity, np.uint8)
    firsts = np.empty(table.num_rows + 1, np.int64)
    positions = np.empty(table.num_rows + 1, np.int64)
    count, size = encode_rows(rows, start, batch_bytes, output, firsts, positions)
    firsts[count], positions[count] = table.num_rows, size
    return [
        _seal(rows, output, firsts[index : index + 2], positions[index : index + 2], codec, span)
        for index, span in enumerate(_spans(rows, firsts[:count], start, end))
    ]


def _spans(rows: ColumnsToEncode, firsts: Int64s, start: int, end: int) -> list[tuple[int, int]]:
    """The range of offsets of each batch, without gaps."""
    bounds = [start, *(int(rows.offset[first]) for first in firsts[1:]), end]
    return list(pairwise(bounds))


def _seal(
    rows: ColumnsToEncode,
    output: NDArray[np.uint8],
    records: Int64s,
    positions: Int64s,
    codec: int,
    span: tuple[int, int],
) -> memoryview | bytes:
    """One batch: its header and its records, optionally compressed."""
    (first, after), (position, stop) = records.tolist(), positions.tolist()
    data = output.data[position:stop]
    if codec != Codec.NONE:
        packed = compress(codec, data[HEADER_SIZE:])
        data = memoryview(bytearray(HEADER_SIZE) + packed)
    timestamps = rows.timestamp[first:after]
    HEADER.pack_into(
        data, 0,
        span[0], len(data) - LENGTH_OVERHEAD, -1, MAGIC, 0, codec,
        span[1] - 1 - span[0], int(timestamps[0]), int(timestamps.max()),
        NO_PRODUCER, -1, NO_SEQUENCE, after - first,
    )  # fmt: skip
    data[17:21] = crc32c(data[CRC_START:]).to_bytes(4, "big")
    return data if codec == Codec.NONE else bytes(data)


def _rows(table: Any) -> ColumnsToEncode:
    arrays = {name: table.column(name).cast(SCHEMA.field(name).type) for name in COLUMNS}
    headers = arrays["headers"]
    return ColumnsToEncode(
        offset=_numbers(arrays["offset"], np.int64),
        timestamp=_numbers(arrays["timestamp"].cast(pa.int64()), np.int64) // 1000,
        key=_text(arrays["key"]),
        value=_text(arrays["value"]),
        first_header=_numbers(headers.offsets, np.int32),
        header_key=_text(headers.values.field("key")),
        header_value=_text(headers.values.field("value")),
    )


def _numbers(array: Any, kind: Any) -> Any:
    numbers = np.array(array.to_numpy(zero_copy_only=False), kind)
    return np.ascontiguousarray(numbers)


def _text(array: Any) -> Text:
    """The buffers of a binary array; of a slice, the part of its rows."""
    _valid, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    valid = np.array(pc.is_valid(array).to_numpy(zero_copy_only=False), np.uint8)
    content.flags.writeable = False
    return Text(np.array(bounds), content, valid)


def _used(text: Text) -> int:
    return int(text.offsets[-1]) - int(text.offsets[0])
