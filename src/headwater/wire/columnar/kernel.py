"""The loop over records, compiled by numba.

One call decodes all batches. A ``memcpy`` intrinsic copies keys, values and headers, five times
faster than a loop compiled by numba. The input is not trusted: reads stay inside their record,
records inside their batch, and writes inside their column. The capacity of a column follows from
the input's size, because records do not overlap.

The first call compiles for some seconds. Later calls use numba's cache, also in other processes.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Int = int | np.int64
F = TypeVar("F", bound=Callable[..., Any])

SECTION_FIELDS: Final = 8
"""Fields of a batch for the kernel: start and end of its records in the payload, their number, base
offset, base timestamp, max timestamp, whether that applies to all records, and the last offset
delta."""

MAX_MILLISECONDS: Final = (2**63 - 1) // 1000
"""A larger timestamp does not fit microseconds."""

DECODED: Final = -1
"""The result if every batch was decoded; otherwise the index of the first malformed batch."""


class Text(NamedTuple):
    """A column of byte strings in Arrow's layout; ``valid`` has a byte for each row."""

    offsets: Int32s
    data: Bytes
    valid: Bytes


class Columns(NamedTuple):
    """The output of the kernel. ``used`` counts rows, and bytes of each byte-string column.

    ``used``: 0 rows, 1 key bytes, 2 value bytes, 3 headers, 4 header key bytes, 5 header value
    bytes.
    """

    offset: Int64s
    timestamp: Int64s
    key: Text
    value: Text
    first_header: Int32s
    header_key: Text
    header_value: Text
    used: Int64s


def compiled(function: F) -> F:
    return cast("F", njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    return cast("F", njit(cache=True, nogil=True, inline="always")(function))


def _memcpy(_context: Any, target: Any, at: Any, source: Any, start: Any, size: Any) -> Any:
    """Copy ``source[start:start + size]`` to ``target[at:]``; the caller checked the bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = context.make_array(signature.args[0])(context, builder, arguments[0])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        byte = ir.IntType(8).as_pointer()
        to_pointer = builder.gep(builder.bitcast(to.data, byte), [arguments[1]])
        from_pointer = builder.gep(builder.bitcast(origin.data, byte), [arguments[3]])
        raw_memcpy: Any = cgutils.raw_memcpy
        raw_memcpy(builder, to_pointer, from_pointer, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


copy_bytes: Any = intrinsic(_memcpy)


@inlined
def read_varint(data: Bytes, position: Int, end: Int) -> tuple[Int, Int]:
    """A zigzag varint and its end; the end is -1 if it does not end before ``end``."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < end:
        byte = data[position]
        position += 1
        if shift == np.uint64(63) and byte > 1:
            break
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inlined
def read_size(data: Bytes, position: Int, end: Int, room: Int) -> tuple[Int, Int]:
    """A byte string's size (negative: null) and start; the start is -1 if it does not fit."""
    size, position = read_varint(data, position, end)
    if position < 0 or size > end - position or size > room:
        return np.int64(0), np.int64(-1)
    return size, position


@compiled
def decode_section(data: Bytes, section: Int64s, columns: Columns) -> bool:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Decode the records of one batch; False if they are malformed.

    One function with local variables only: reading columns from the tuple or counters from the
    array for each record makes it four times slower.
    """
    position, section_end, count, base_offset = section[0], section[1], section[2], section[3]
    base_timestamp, max_timestamp = section[4], section[5]
    stamped, last_delta = section[6], section[7]
    offsets, timestamps, first_header = columns.offset, columns.timestamp, columns.first_header
    key_offsets, key_data, key_valid = columns.key
    value_offsets, value_data, value_valid = columns.value
    name_offsets, name_data, name_valid = columns.header_key
    content_offsets, content_data, content_valid = columns.header_value
    row, keys, values = columns.used[0], columns.used[1], columns.used[2]
    header, names, contents = columns.used[3], columns.used[4], columns.used[5]
    if count < 0 or count > len(offsets) - row:
        return False
    previous: Int = np.int64(-1)
    for _ in range(count):
        size, position = read_varint(data, position, section_end)
        if position < 0 or size < 6 or size > section_end - position:
            return False
        end = position + size
        delta, position = read_varint(data, position + 1, end)
        if position < 0:
            return False
        timestamp = max_timestamp if stamped else base_timestamp + delta
        if timestamp > MAX_MILLISECONDS or timestamp < -MAX_MILLISECONDS:
            return False
        timestamps[row] = timestamp * 1000
        offset_delta, position = read_varint(data, position, end)
        if position < 0 or offset_delta <= previous or offset_delta > last_delta:
            return False
        previous = offset_delta
        offsets[row] = base_offset + offset_delta

        size, position = read_size(data, position, end, len(key_data) - keys)
        if position < 0:
            return False
        key_offsets[row] = keys
        key_valid[row] = size >= 0
        if size > 0:
            copy_bytes(key_data, keys, data, position, size)
            keys += size
            position += size

        size, position = read_size(data, position, end, len(value_data) - values)
        if position < 0:
            return False
        value_offsets[row] = values
        value_valid[row] = size >= 0
        if size > 0:
            copy_bytes(value_data, values, data, position, size)
            values += size
            position += size

        headers, position = read_varint(data, position, end)
        if position < 0 or headers < 0 or headers > len(name_valid) - header:
            return False
        first_header[row] = header
        for _header in range(headers):
            size, position = read_size(data, position, end, len(name_data) - names)
            if position < 0 or size < 0:
                return False
            name_offsets[header] = names
            name_valid[header] = 1
            copy_bytes(name_data, names, data, position, size)
            names += size
            position += size

            size, position = read_size(data, position, end, len(content_data) - contents)
            if position < 0:
                return False
            content_offsets[header] = contents
            content_valid[header] = size >= 0
            if size > 0:
                copy_bytes(content_data, contents, data, position, size)
                contents += size
                position += size
            header += 1
        if position != end:
            return False
        row += 1
    columns.used[0], columns.used[1], columns.used[2] = row, keys, values
    columns.used[3], columns.used[4], columns.used[5] = header, names, contents
    return bool(position == section_end)


@compiled
def decode_sections(data: Bytes, sections: NDArray[np.int64], columns: Columns) -> int:
    """Decode all batches; returns ``DECODED`` or the index of the first malformed one."""
    for index in range(len(sections)):
        if not decode_section(data, sections[index], columns):
            return index
    return DECODED
