"""Splitting record batches into row groups of similar size, without reading single records."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ROW_BYTES: Final = 32
"""Approximate bytes of the fixed-width columns of a row."""


def row_groups(batches: Iterable[Any], target: int) -> Iterator[Any]:
    """``pyarrow.Table`` objects of at most ``target`` bytes, or with a single larger row.

    Holds one row group and one batch at a time, and keeps the order of rows.
    """
    pending: list[Any] = []
    size = 0
    for batch in batches:
        ends = row_ends(batch)
        first, rows = 0, batch.num_rows
        while first < rows:
            before = int(ends[first - 1]) if first else 0
            stop = int(np.searchsorted(ends, before + target - size, side="right"))
            stop = max(stop, first if pending else first + 1)
            if stop > first:
                pending.append(batch.slice(first, stop - first))
                size += int(ends[stop - 1]) - before
            if stop < rows or size >= target:
                yield pa.Table.from_batches(pending)
                pending, size = [], 0
            first = stop
    if pending:
        yield pa.Table.from_batches(pending)


def row_ends(batch: Any) -> NDArray[np.int64]:
    """The cumulative size in bytes after each row."""
    rows = batch.num_rows
    headers = batch.column("headers")
    lists = _offsets(headers.offsets, len(headers.offsets))
    pairs = headers.values
    total = np.arange(rows + 1, dtype=np.int64) * ROW_BYTES
    for name in ("key", "value"):
        total += _bounds(batch.column(name))
    for number in (0, 1):
        total += _bounds(pairs.field(number))[lists]
    ends: NDArray[np.int64] = total[1:] - total[0]
    return ends


def _bounds(column: Any) -> NDArray[np.int32]:
    """The offsets of a binary column."""
    if not len(column):
        return np.zeros(1, np.int32)
    found = np.frombuffer(column.buffers()[1], np.int32)
    return found[column.offset : column.offset + len(column) + 1]


def _offsets(array: Any, rows: int) -> NDArray[np.int32]:
    found: NDArray[np.int32] = array.to_numpy(zero_copy_only=True)
    return found[:rows] if rows else np.zeros(1, np.int32)
