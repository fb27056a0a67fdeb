"""Iceberg partition values of records, for tables that are a copy of the log."""

from collections.abc import Iterator, Sequence
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.topic_config.table import PartitionTerm

Values = tuple[int | None, ...]

_HOUR_US = 3_600_000_000
_UNITS = {"year": "datetime64[Y]", "month": "datetime64[M]", "day": "datetime64[D]"}


def split_by_partition(batch: Any, terms: Sequence[PartitionTerm]) -> Iterator[tuple[Values, Any]]:
    """Split the rows of a record batch by partition values; each part is in offset order."""
    columns = [partition_values(batch, term) for term in terms]
    keys = np.column_stack([np.ma.getdata(values) for values in columns])
    gone = np.column_stack([np.ma.getmaskarray(values) for values in columns])
    _found, first, groups = np.unique(
        np.hstack([keys, gone]), axis=0, return_index=True, return_inverse=True
    )
    for number, row in enumerate(first):
        values = tuple(
            None if gone[row, place] else int(keys[row, place]) for place in range(len(terms))
        )
        yield values, batch.take(pa.array(np.flatnonzero(groups.ravel() == number)))


def partition_values(batch: Any, term: PartitionTerm) -> Any:
    """The partition value of every row, as a masked array of int64."""
    column = batch.column(term.column)
    if term.transform == "bucket":
        assert term.argument is not None
        return np.ma.MaskedArray(
            _buckets(column, term.argument), mask=pc.is_null(column).to_numpy(zero_copy_only=False)
        )
    if term.transform == "identity":
        return np.ma.MaskedArray(column.to_numpy().astype(np.int64))
    microseconds = column.cast(pa.int64()).to_numpy()
    if term.transform == "hour":
        return np.ma.MaskedArray(microseconds // _HOUR_US)
    times = microseconds.view("datetime64[us]").astype(_UNITS[term.transform])
    return np.ma.MaskedArray(times.astype(np.int64))


def _buckets(column: Any, buckets: int) -> NDArray[np.int64]:
    if not len(column):
        return np.empty(0, np.int64)
    _valid, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    hashes: NDArray[np.int64] = _murmur3(np.array(bounds), np.array(content))
    return (hashes & 0x7FFFFFFF) % buckets


@numba.njit(cache=True)
def _murmur3(bounds: NDArray[np.int32], data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The 32-bit Murmur3 hash of each value with seed 0, as Iceberg specifies."""
    hashes = np.empty(len(bounds) - 1, np.int64)
    low = np.uint64(0xFFFFFFFF)
    for row in range(len(hashes)):
        start, end = bounds[row], bounds[row + 1]
        length = end - start
        mixed = np.uint64(0)
        whole = start + length // 4 * 4
        for position in range(start, end, 4):
            word = np.uint64(0)
            for place in range(min(4, end - position)):
                word |= np.uint64(data[position + place]) << np.uint64(8 * place)
            word = (word * np.uint64(0xCC9E2D51)) & low
            word = ((word << np.uint64(15)) | (word >> np.uint64(17))) & low
            mixed ^= (word * np.uint64(0x1B873593)) & low
            if position < whole:
                mixed = ((mixed << np.uint64(13)) | (mixed >> np.uint64(19))) & low
                mixed = (mixed * np.uint64(5) + np.uint64(0xE6546B64)) & low
        mixed ^= np.uint64(length)
        mixed ^= mixed >> np.uint64(16)
        mixed = (mixed * np.uint64(0x85EBCA6B)) & low
        mixed ^= mixed >> np.uint64(13)
        mixed = (mixed * np.uint64(0xC2B2AE35)) & low
        mixed ^= mixed >> np.uint64(16)
        hashes[row] = np.int64(mixed)
    return hashes
