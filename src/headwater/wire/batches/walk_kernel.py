"""The walk over a batch's records, compiled by numba. ``record_walk`` documents the interface.

It takes about 12 ns per record. LLVM inlines ``read_varint``; with numba's own inlining, or with
one more branch in it, a walk takes six times as long. The first call compiles. Later calls use
numba's cache, also in other processes.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from headwater.wire.batches.codecs import Buffer
from headwater.wire.batches.record_walk import (
    CUT,
    FAULTY,
    MALFORMED,
    MAX_FAULTS,
    MAX_LENGTH_BYTES,
    MIN_BODY,
    NO_KEY,
    NO_TIMESTAMP,
    OUT_OF_TIME,
    WALKED,
    RecordLimits,
    Sought,
    Walked,
)

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]
Int = int | np.int64
F = TypeVar("F", bound=Callable[..., Any])
MAX_INT64 = np.int64(2**63 - 1)
_FIRST_FAULT = np.empty(1, np.int64)
"""A dummy output, written by walks and never read."""


def walk(
    payload: Buffer, size: int, start: Walked, base_timestamp: int, limits: RecordLimits
) -> Walked:
    """See ``record_walk.Walk``."""
    arguments = (
        _read_only(payload),
        start.position,
        size,
        start.number,
        limits.records,
        base_timestamp,
        limits.earliest,
        limits.latest,
        limits.needs_keys,
        start.largest,
    )
    status, number, position, largest, found = walk_records(*arguments, _FIRST_FAULT)
    faults = start.faults
    if found:  # rare, so space is allocated only then
        all_faults = np.empty(MAX_FAULTS - len(faults), np.int64)
        status, number, position, largest, found = walk_records(*arguments, all_faults)
        faults = (*faults, *all_faults[:found].tolist())
    return Walked(int(status), int(number), int(position), int(largest), faults)


def search(
    payload: Buffer,
    size: int,
    count: int,
    base_timestamp: int,
    timestamp: int,
    least: int,
    *,
    stamped: bool,
) -> Sought:
    """See ``record_walk.RecordSearch``."""
    data = _read_only(payload)
    sought = search_records(data, size, count, base_timestamp, timestamp, least, stamped)
    return Sought(*map(int, sought))


def warm_up() -> None:
    """Compile, or load from the cache."""
    one = bytes([2 * MIN_BODY, 0, 0, 0, 0, 0, 0])
    walk(one, len(one), Walked(), 0, RecordLimits(1, needs_keys=True, earliest=0, latest=0))
    search(one, len(one), 1, 0, 0, 0, stamped=False)


def _read_only(payload: Buffer) -> Bytes:
    """One array type, so that a kernel is compiled once."""
    data = np.frombuffer(payload, np.uint8)
    data.flags.writeable = False
    return data


def _compiled(function: F) -> F:
    return cast("F", njit(cache=True, nogil=True)(function))


@_compiled
def read_varint(data: Bytes, position: Int, end: Int) -> tuple[Int, Int]:
    """A zigzag varint and its end; the end is -1 if it does not end before ``end``."""
    value: Int = np.int64(0)
    shift: Int = np.int64(0)
    while position < end and shift < 70:
        byte = np.int64(data[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & MAX_INT64) ^ -(value & 1), position
        shift += 7
    return np.int64(0), np.int64(-1)


@_compiled
def end_of_headers(data: Bytes, at: Int, end: Int, headers: Int) -> Int:
    """The end of ``count`` headers; -1 if they do not fit."""
    for _header in range(headers):
        name, at = read_varint(data, at, end)
        if at < 0 or name < 0 or name > end - at:
            return np.int64(-1)
        content, at = read_varint(data, at + name, end)
        if at < 0 or content > end - at:
            return np.int64(-1)
        if content > 0:
            at += content
    return at


@_compiled
def walk_records(  # noqa: C901, PLR0912, PLR0915
    data: Bytes,
    position: Int,
    size: Int,
    first: Int,
    count: Int,
    base_timestamp: Int,
    earliest: Int,
    latest: Int,
    needs_keys: bool,  # noqa: FBT001
    largest: Int,
    faults: Int64s,
) -> tuple[Int, Int, Int, Int, Int]:
    found: Int = np.int64(0)
    index: Int = np.int64(first)
    status = WALKED
    while index < count:
        status = MALFORMED
        length, at = read_varint(data, position, size)
        if at < 0:
            if size - position < MAX_LENGTH_BYTES:
                status = CUT
            break
        if length < MIN_BODY or at - position > MAX_LENGTH_BYTES:
            break
        if length > size - at:
            status = CUT
            break
        end = at + length
        delta, at = read_varint(data, at + 1, end)
        if at < 0:
            break
        timestamp = base_timestamp + delta
        offset, at = read_varint(data, at, end)
        if at < 0 or offset != index:
            break
        key, at = read_varint(data, at, end)
        if at < 0 or key > end - at:
            break
        if key > 0:
            at += key
        value, at = read_varint(data, at, end)
        if at < 0 or value > end - at:
            break
        if value > 0:
            at += value
        headers, at = read_varint(data, at, end)
        if at < 0 or headers < 0 or headers > end - at:
            break
        if headers > 0:
            at = end_of_headers(data, at, end, headers)
        if at != end:
            break
        if needs_keys and key < 0:
            faults[found] = index * 2 + NO_KEY
            found += 1
        elif (timestamp < earliest or timestamp > latest) and timestamp != NO_TIMESTAMP:
            faults[found] = index * 2 + OUT_OF_TIME
            found += 1
        largest = max(largest, timestamp)
        position = end
        index += 1
        status = WALKED
        if found == len(faults):
            status = FAULTY
            break
    return status, index, position, largest, found


@_compiled
def search_records(
    data: Bytes,
    size: Int,
    count: Int,
    base_timestamp: Int,
    wanted: Int,
    least: Int,
    stamped: bool,  # noqa: FBT001
) -> tuple[Int, Int, Int, Int]:
    largest: Int = np.int64(NO_TIMESTAMP)
    position: Int = np.int64(0)
    for _ in range(count):
        length, at = read_varint(data, position, size)
        if at < 0 or length > size - at:
            return CUT, np.int64(-1), np.int64(NO_TIMESTAMP), largest
        if length < MIN_BODY:
            return MALFORMED, np.int64(-1), np.int64(NO_TIMESTAMP), largest
        end = at + length
        delta, at = read_varint(data, at + 1, end)
        if at < 0:
            return MALFORMED, np.int64(-1), np.int64(NO_TIMESTAMP), largest
        offset, at = read_varint(data, at, end)
        if at < 0:
            return MALFORMED, np.int64(-1), np.int64(NO_TIMESTAMP), largest
        if offset >= least:
            timestamp = base_timestamp if stamped else base_timestamp + delta
            largest = max(largest, timestamp)
            if timestamp >= wanted:
                return WALKED, offset, timestamp, largest
        position = end
    return WALKED, np.int64(-1), np.int64(NO_TIMESTAMP), largest
