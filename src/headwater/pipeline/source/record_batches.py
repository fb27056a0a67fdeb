"""Arrow record batches from index entries of any kind, with one schema."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptMessage
from headwater.log.formats.metadata_values import SEGMENT, WAL, IndexEntry
from headwater.log.formats.segment import FOOTER, HEADER
from headwater.log.read.parquet.footer import RowGroup
from headwater.log.read.parquet.rows import DAMAGE, read_footer
from headwater.log.read.parquet.source import FOOTER_GUESS, footer_length
from headwater.pipeline.compaction.chunks import record_batches
from headwater.pipeline.object_reads import ObjectReads
from headwater.pipeline.source.filters import Interval, ReadFilter
from headwater.wire.columnar.schema import HEADERS, SCHEMA

TOPIC: Final = pa.field("topic", pa.string(), nullable=False)

COLUMNS: Final = pa.schema([TOPIC, *SCHEMA])
"""The columns of a record: its topic, and the columns of the topic's table."""


class Projection:
    """Selects the requested columns of batches, in their order."""

    def __init__(self, columns: Sequence[str], topic: str) -> None:
        self._schema = pa.schema([COLUMNS.field(name) for name in columns])
        self._topic = topic
        self.needed = tuple(name for name in columns if name != "topic")

    def __call__(self, batch: Any) -> Any:
        arrays = [
            pa.repeat(pa.scalar(self._topic), batch.num_rows)
            if name == "topic"
            else batch.column(name)
            for name in self._schema.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def chunk_batches(
    entries: Sequence[IndexEntry], reads: ObjectReads, partition: int, start: int
) -> Iterator[Any]:
    """Records of inline, WAL and segment entries from offset ``start``."""
    chunks = [_bodies(entry) if entry.kind == SEGMENT else entry for entry in entries]
    return record_batches(chunks, reads, partition=partition, keep_from=start)


def _bodies(segment: IndexEntry) -> IndexEntry:
    """A segment's batches, between its header and its footer, as a chunk of an object."""
    return msgspec.structs.replace(
        segment,
        kind=WAL,
        position=HEADER.size,
        length=segment.length - HEADER.size - FOOTER.size,
    )


def parquet_batches(
    entry: IndexEntry,
    reads: ObjectReads,
    start: int,
    end: int,
    columns: Sequence[str],
    wanted: ReadFilter,
) -> Iterator[Any]:
    """Rows of ``[start, end)`` from the row groups that can match the filter."""
    offsets = Interval(start, end - 1)
    wanted = replace(wanted, offsets=wanted.offsets.intersect(offsets.low, offsets.high))
    names = [name for name in SCHEMA.names if name in columns or name == "offset"]
    described, metadata = read_footer(_footer_bytes(entry, reads), entry.key)
    try:
        file = pq.ParquetFile(
            pa.PythonFile(_Ranged(entry, reads), mode="r"),
            metadata=metadata,
            pre_buffer=True,
            page_checksum_verification=True,
        )
        for number, group in enumerate(described.groups):
            if _may_have(group, wanted):
                table = file.read_row_group(number, columns=names, use_threads=False)
                for batch in table.combine_chunks().to_batches():
                    yield _as_decoded(batch)
    except DAMAGE as error:
        raise CorruptMessage(f"{entry.key}: {error}") from error


def _footer_bytes(entry: IndexEntry, reads: ObjectReads) -> bytearray:
    guess = min(FOOTER_GUESS, entry.length)
    tail = reads.read(entry.key, entry.length - guess, guess)
    needed = footer_length(tail, entry)
    if needed > guess:
        tail = reads.read(entry.key, entry.length - needed, needed)
    return tail


def _may_have(group: RowGroup, wanted: ReadFilter) -> bool:
    spans: dict[tuple[str, ...], Interval] = {
        ("offset",): wanted.offsets,
        ("timestamp",): wanted.times,
    }
    for column in group.columns:
        span = spans.get(column.path)
        if span is None or column.bounds is None:
            continue
        least, greatest = column.bounds
        if greatest < span.low or least > span.high:
            return False
    return True


def _as_decoded(batch: Any) -> Any:
    """Rows of a file with the decoder's schema. Only field names inside headers differ."""
    arrays = [
        _headers(array) if name == "headers" else array
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    ]
    schema = pa.schema([SCHEMA.field(name) for name in batch.schema.names])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(lists: Any) -> Any:
    pairs = pa.StructArray.from_arrays(
        [lists.values.field(0), lists.values.field(1)], fields=list(HEADERS.value_type)
    )
    return pa.ListArray.from_arrays(lists.offsets, pairs, type=HEADERS)


def trimmed(batch: Any, start: int, end: int) -> Any:
    """The rows of ``[start, end)`` of a batch with ascending offsets."""
    offsets = batch.column("offset").to_numpy()
    first, after = (int(position) for position in np.searchsorted(offsets, [start, end]))
    return batch if after - first == len(offsets) else batch.slice(first, after - first)


class _Ranged(io.RawIOBase):
    """An entry's file that reads only the requested ranges."""

    def __init__(self, entry: IndexEntry, reads: ObjectReads) -> None:
        super().__init__()
        self._entry = entry
        self._reads = reads
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._entry.length}
        self._position = bases[whence] + offset
        return self._position

    def read(self, size: int = -1, /) -> Any:
        """Return a buffer without a copy; Arrow accepts any buffer."""
        left = max(self._entry.length - self._position, 0)
        length = left if size < 0 else min(size, left)
        found = self._reads.read(self._entry.key, self._position, length)
        self._position += length
        return memoryview(found)
