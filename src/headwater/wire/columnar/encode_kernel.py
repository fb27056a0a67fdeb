"""The loop that encodes columns as records, compiled by numba.

It is the reverse of ``kernel``. ``encoder`` writes the headers of the batches afterwards.
"""

from typing import Final, NamedTuple

import numpy as np

from headwater.wire.batches.batch import HEADER_SIZE
from headwater.wire.columnar.kernel import (
    Bytes,
    Int,
    Int32s,
    Int64s,
    Text,
    compiled,
    copy_bytes,
    inlined,
)

MAX_RECORD_OVERHEAD: Final = 40
"""Maximum bytes of a record besides key, value and headers."""

MAX_HEADER_OVERHEAD: Final = 10
"""Maximum bytes of a record header besides key and value."""


class ColumnsToEncode(NamedTuple):
    """Columns to encode; header ``n`` of row ``r`` is ``first_header[r] + n`` of both texts."""

    offset: Int64s
    timestamp: Int64s
    key: Text
    value: Text
    first_header: Int32s
    header_key: Text
    header_value: Text


@inlined
def varint_size(value: Int) -> Int:
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size


@inlined
def write_varint(output: Bytes, position: Int, value: Int) -> Int:
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        output[position] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        position += 1
    output[position] = np.uint8(rest)
    return position + 1


@inlined
def text_size(text: Text, row: Int) -> Int:
    """The encoded size of a byte string with its length."""
    if not text.valid[row]:
        return 1
    size = np.int64(text.offsets[row + 1]) - np.int64(text.offsets[row])
    return varint_size(size) + size


@inlined
def write_text(output: Bytes, position: Int, text: Text, row: Int) -> Int:
    if not text.valid[row]:
        return write_varint(output, position, np.int64(-1))
    start = np.int64(text.offsets[row])
    size = np.int64(text.offsets[row + 1]) - start
    position = write_varint(output, position, size)
    copy_bytes(output, position, text.data, start, size)
    return position + size


@compiled
def encode_rows(
    rows: ColumnsToEncode,
    start: int,
    batch_bytes: int,
    output: Bytes,
    firsts: Int64s,
    positions: Int64s,
) -> tuple[Int, Int]:
    """Write all rows as batches of about ``batch_bytes``, with space for their headers.

    Returns the number of batches and of bytes. ``firsts`` receives each batch's first row, and
    ``positions`` its start. The base offset of the first batch is ``start``; of others, the offset
    of their first record.
    """
    batches: Int = np.int64(0)
    position: Int = np.int64(0)
    base_offset: Int = np.int64(start)
    base_timestamp: Int = np.int64(0)
    for row in range(len(rows.offset)):
        first, last = np.int64(rows.first_header[row]), np.int64(rows.first_header[row + 1])
        texts = text_size(rows.key, row) + text_size(rows.value, row) + varint_size(last - first)
        for header in range(first, last):
            texts += text_size(rows.header_key, header) + text_size(rows.header_value, header)
        begun = batches > 0 and position - positions[batches - 1] + texts <= batch_bytes
        if not begun:
            base_timestamp = rows.timestamp[row]
            if batches > 0:
                base_offset = rows.offset[row]
            firsts[batches] = row
            positions[batches] = position
            position += HEADER_SIZE
            batches += 1
        timestamp_delta = rows.timestamp[row] - base_timestamp
        offset_delta = rows.offset[row] - base_offset
        body = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + texts
        position = write_varint(output, position, body)
        output[position] = 0
        position = write_varint(output, position + 1, timestamp_delta)
        position = write_varint(output, position, offset_delta)
        position = write_text(output, position, rows.key, row)
        position = write_text(output, position, rows.value, row)
        position = write_varint(output, position, last - first)
        for header in range(first, last):
            position = write_text(output, position, rows.header_key, header)
            position = write_text(output, position, rows.header_value, header)
    return batches, position
