"""From Parquet footers and row groups to record batches (extra ``table``, off the event loop).

A file has the columns of ``wire.columnar.SCHEMA``, timestamps in microseconds, its rows sorted by
offset, and statistics of offset and timestamp for every row group.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headwater.errors import CorruptMessage
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.read.filler import filler_batches
from headwater.log.read.parquet.footer import FooterDamage, FooterDescription, RowGroup, describe
from headwater.log.read.parquet.source import MAGIC, TRAILER
from headwater.log.read.pieces import Piece, make_spanning_piece
from headwater.log.read.sources import Extent
from headwater.wire.batches.batch import LOG_APPEND_TIME, trusted_batch
from headwater.wire.batches.records import with_log_append_time
from headwater.wire.columnar.encoder import COLUMNS, MAX_OFFSET_DELTA, encode
from headwater.wire.columnar.schema import SCHEMA

BATCH_BYTES: Final = 256 * 1024
"""Approximate size of a batch: small enough for any fetch, large enough to be cheap."""

ATTRIBUTES: Final = "attributes"

DAMAGE: Final = (pa.ArrowException, OSError, ValueError, OverflowError)
"""Arrow's errors for damaged files."""


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's footer, the columns to read, its row groups as extents, and its encoded size."""

    metadata: Any
    columns: list[str]
    extents: list[Extent]
    size: int


def parse_footer(tail: bytearray, entry: IndexEntry) -> Footer:
    """The footer at the end of ``tail``. Raises ``CorruptMessage`` if it does not fit its entry."""
    found, metadata = read_footer(tail, entry.key)
    extents = [_extent(number, group, entry) for number, group in enumerate(found.groups)]
    there = metadata.schema.to_arrow_schema().names
    if missing := set(COLUMNS) - set(there):
        raise CorruptMessage(f"{entry.key} has no column {', '.join(sorted(missing))}")
    columns = [name for name in (*COLUMNS, ATTRIBUTES) if name in there]
    size = int.from_bytes(tail[-TRAILER : -len(MAGIC)], "little")
    return Footer(metadata, columns, _joined(extents, entry), size)


def read_footer(tail: bytearray, key: str) -> tuple[FooterDescription, Any]:
    """The footer at the end of ``tail``, parsed here and by Arrow, whose metadata reads rows.

    Arrow must not see row groups and columns of a footer before ``describe`` has accepted it: see
    ``footer``. Raises ``CorruptMessage`` if the footer is damaged.
    """
    size = int.from_bytes(tail[-TRAILER : -len(MAGIC)], "little")
    try:
        if size > len(tail) - TRAILER:
            raise FooterDamage("it is longer than what there is of the file")
        found = describe(tail[-TRAILER - size : -TRAILER])
        # Arrow checks the magic at both ends, and reads nothing between them yet.
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + tail))
        metadata.schema.to_arrow_schema()
    except DAMAGE as error:
        raise CorruptMessage(f"{key}: {error}") from error
    if metadata.num_row_groups != len(found.groups) or metadata.num_columns != len(found.types):
        raise CorruptMessage(f"{key}: the footer is ambiguous")
    return found, metadata


def _extent(number: int, group: RowGroup, entry: IndexEntry) -> Extent:
    """The place of a row group; start and end are those of its rows."""
    used = [column for column in group.columns if column.path[0] in (*COLUMNS, ATTRIBUTES)]
    bounds = {column.path: column.bounds for column in used}
    offsets, times = bounds.get(("offset",)), bounds.get(("timestamp",))
    if offsets is None or group.rows <= 0:
        raise CorruptMessage(f"{entry.key}: row group {number} does not say which offsets it has")
    first = min(column.first_byte for column in used)
    last = max(column.first_byte + column.length for column in used)
    if not 0 < first < last < entry.length:
        raise CorruptMessage(f"{entry.key}: row group {number} lies outside of the file")
    return Extent(
        start=offsets[0],
        end=offsets[1] + 1,
        position=first,
        length=last - first,
        max_timestamp=entry.max_timestamp if times is None else times[1] // 1000,
        row_group=number,
    )


def _joined(groups: list[Extent], entry: IndexEntry) -> list[Extent]:
    """Extents that cover the whole entry: each reaches to the first row of the next."""
    offset = entry.start
    for group in groups:
        if group.start < offset or group.end > entry.end:
            raise CorruptMessage(
                f"{entry.key}: rows of [{group.start}, {group.end}) inside [{offset}, {entry.end})"
            )
        offset = group.end
    if not groups:
        return [Extent(entry.start, entry.end, 0, 0, entry.max_timestamp)]
    bounds = [entry.start, *(group.start for group in groups[1:]), entry.end]
    return [
        Extent(
            bounds[number],
            bounds[number + 1],
            group.position,
            group.length,
            group.max_timestamp,
            number,
        )
        for number, group in enumerate(groups)
    ]


def read_piece(footer: Footer, extent: Extent, data: bytearray, leader_epoch: int) -> Piece:
    """The records of one row group as batches; ``data`` are the bytes of its extent.

    Raises ``CorruptMessage`` if it cannot be decoded.
    """
    try:
        table = _read_columns(footer, extent, data, footer.columns)
        (rows,) = table.combine_chunks().to_batches()
        batches = list(_batches(rows, extent.start, extent.end))
    except DAMAGE as error:
        raise CorruptMessage(f"row group {extent.row_group}: {error}") from error
    return make_spanning_piece(batches, extent.start, extent.end, leader_epoch)


def read_columns(
    footer: Footer, extent: Extent, data: bytearray, columns: Sequence[str]
) -> list[Any]:
    """Columns of one row group as arrays. Raises ``CorruptMessage`` as ``read_piece`` does."""
    try:
        table = _read_columns(footer, extent, data, columns)
        return [table.column(name).to_numpy() for name in columns]
    except DAMAGE as error:
        raise CorruptMessage(f"row group {extent.row_group}: {error}") from error


def _read_columns(footer: Footer, extent: Extent, data: bytearray, columns: Sequence[str]) -> Any:
    file = pq.ParquetFile(
        pa.PythonFile(_Part(extent.position, data), mode="r"),
        metadata=footer.metadata,
        pre_buffer=False,
        page_checksum_verification=True,
    )
    return file.read_row_group(extent.row_group, columns=list(columns), use_threads=False)


def warm_up() -> None:
    """Load the compiled kernel."""
    row: dict[str, Any] = {"offset": 0, "timestamp": 0, "key": None, "value": b"", "headers": []}
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    encode(pa.RecordBatch.from_pylist([row], schema=schema), 0, 1, batch_bytes=BATCH_BYTES)


class _Part(io.RawIOBase):
    """A file with only the bytes from ``start`` on in memory."""

    def __init__(self, start: int, data: bytearray) -> None:
        super().__init__()
        self._start = start
        self._data = memoryview(data)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._end}
        self._position = bases[whence] + offset
        return self._position

    @property
    def _end(self) -> int:
        return self._start + len(self._data)

    def read(self, size: int = -1, /) -> Any:
        """A view without a copy, since Arrow takes any buffer."""
        if self._position < self._start:
            raise OSError(f"byte {self._position} of a row group that begins at {self._start}")
        after = self._end if size < 0 else min(self._position + size, self._end)
        found = self._data[self._position - self._start : after - self._start]
        self._position = max(after, self._position)
        return found


def _batches(rows: Any, start: int, end: int) -> Iterator[memoryview | bytes]:
    """Batches over ``[start, end)``. Fillers span a gap after the last row, and huge gaps."""
    offsets = rows.column("offset").to_numpy()
    if offsets[0] < start or offsets[-1] >= end or not (np.diff(offsets) > 0).all():
        raise CorruptMessage(f"rows {offsets[0]} to {offsets[-1]} do not fit [{start}, {end})")
    limit = MAX_OFFSET_DELTA // (len(offsets) + 1)
    cuts = [0, *(np.flatnonzero(np.diff(offsets) > limit) + 1).tolist(), len(offsets)]
    offset = start
    for first, after in pairwise(cuts):
        if int(offsets[first]) - offset > limit:
            yield from filler_batches(offset, int(offsets[first]))
            offset = int(offsets[first])
        stop = int(offsets[after - 1]) + 1
        yield from _stamped(rows.slice(first, after - first), offset, stop)
        offset = stop
    if offset < end:
        yield from filler_batches(offset, end)


def _stamped(rows: Any, start: int, end: int) -> Iterator[memoryview | bytes]:
    """Encode rows as batches with the timestamp types that the produced batches had.

    A batch with log append time has one timestamp for all its records, so it ends where the
    timestamp changes.
    """
    stamped = _append_times(rows)
    if not stamped.any():
        yield from encode(rows, start, end, batch_bytes=BATCH_BYTES)
        return
    times = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    changes = np.diff(stamped) | (stamped[1:] & (np.diff(times) != 0))
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), rows.num_rows]
    offsets = rows.column("offset").to_numpy()
    bounds = [start, *(int(offsets[cut]) for cut in cuts[1:-1]), end]
    for number, (first, after) in enumerate(pairwise(cuts)):
        part = rows.slice(first, after - first)
        for batch in encode(part, bounds[number], bounds[number + 1], batch_bytes=BATCH_BYTES):
            if stamped[first]:
                yield bytes(with_log_append_time(trusted_batch(batch), int(times[first])).data)
            else:
                yield batch


def _append_times(rows: Any) -> NDArray[np.bool_]:
    if ATTRIBUTES not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    attributes: NDArray[np.int32] = rows.column(ATTRIBUTES).to_numpy()
    flagged: NDArray[np.bool_] = (attributes & LOG_APPEND_TIME) != 0
    return flagged
