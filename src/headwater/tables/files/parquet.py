"""Writing a range of a stream as a Parquet file with statistics.

SQL engines read columns and prune by statistics. Brokers serve a fetch from single row groups, so
row groups are small and contain consecutive offsets in order.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from headwater.errors import InvalidRecord
from headwater.log.jobs.jobs import DataFile
from headwater.tables.commit.statistics import STATISTICS, encode_statistics
from headwater.tables.files.object_writer import create_object, store_id
from headwater.tables.files.row_groups import row_groups
from headwater.tables.schema import ARROW, to_table

ROW_GROUP_BYTES: Final = 4 * 2**20
"""Uncompressed size of a row group. Smaller ones take longer to write (10 % at half the size, 30 %
at a quarter). Larger ones make a fetch read unneeded records."""

PAGE_BYTES: Final = 2**20
ZSTD_LEVEL: Final = 1

DICTIONARY: Final = [
    "partition",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "attributes",
    "record_crc",
    "headers.list.element.key",
]
"""Columns with repeated values. Keys and values are left out: Parquet abandons a large dictionary,
and until then it costs more time than it saves space."""

DELTA: Final = {"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """The key of a file to write, and its range of offsets."""

    objects_url: str
    key: str
    partition: int
    start: int
    end: int
    notes: Mapping[str, str]
    """Text for the file's footer: topic, stream and job."""


def write_range(
    batches: Iterable[Any], target: FileTarget, *, row_group_bytes: int = ROW_GROUP_BYTES
) -> DataFile:
    """Write the records of one stream range, decoded by ``wire.columnar.decode``, to a file.

    Memory holds one of the ``batches`` and one row group at a time. Without records the file has no
    row group. The object exists once this returns.

    Raises ``InvalidRecord`` if offsets do not ascend within the range, and what ``create_object``
    raises; no object is created then.
    """
    with RangeFile.create(target, (target.partition,)) as file:
        for table in row_groups(map(to_table, batches), row_group_bytes):
            file.add(table)
    return file.written()


class RangeFile:
    """A Parquet file during its writing, row group by row group."""

    def __init__(self, target: FileTarget, values: tuple[int | None, ...]) -> None:
        self._target = target
        self._values = values
        self._bounds = _Bounds(target)
        self._writer: Any = None
        self._footer: Any = None
        self._size = 0

    @classmethod
    @contextlib.contextmanager
    def create(cls, target: FileTarget, values: tuple[int | None, ...]) -> Iterator["RangeFile"]:
        """Create a file for the table partition ``values``. It exists when the block has ended."""
        file = cls(target, values)
        with create_object(target.objects_url, target.key) as sink:
            with parquet_writer(sink) as (file._writer, footers):
                yield file
                file._writer.add_key_value_metadata(
                    {"headwater.start": str(target.start), "headwater.end": str(target.end)}
                    | dict(target.notes)
                )
            file._footer, file._size = footers[0], sink.tell()

    def add(self, table: Any) -> None:
        """Write a row group. Raises ``InvalidRecord`` if offsets do not ascend."""
        self._bounds.add(table)
        self._writer.write_table(table, row_group_size=table.num_rows)

    def written(self) -> DataFile:
        """The manifest entry, after the block has ended."""
        return DataFile(
            key=self._target.key,
            store=store_id(self._target.objects_url),
            size=self._size,
            rows=self._bounds.rows,
            start=self._target.start,
            end=self._target.end,
            min_timestamp=self._bounds.min_timestamp,
            max_timestamp=self._bounds.max_timestamp,
            stats=encode_statistics(self._footer, self._values),
        )


@contextlib.contextmanager
def parquet_writer(sink: Any) -> Iterator[tuple[Any, list[Any]]]:
    """A ``pyarrow.parquet.ParquetWriter`` for ``ARROW``, and its footer after the block."""
    footers: list[Any] = []
    writer = pq.ParquetWriter(
        sink,
        ARROW,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        version="2.6",
        data_page_size=PAGE_BYTES,
        write_page_checksum=True,  # finds flipped bits, which zstd does not
        store_schema=False,
        use_dictionary=DICTIONARY,
        column_encoding=DELTA,
        write_statistics=list(STATISTICS),
        sorting_columns=[pq.SortingColumn(ARROW.get_field_index("offset"))],
        metadata_collector=footers,
    )
    with writer:
        yield writer, footers


class _Bounds:
    """The rows and timestamps so far; refuses offsets that do not ascend."""

    def __init__(self, target: FileTarget) -> None:
        self._target = target
        self._next = target.start
        self.rows = 0
        self.min_timestamp = -1
        self.max_timestamp = -1

    def add(self, table: Any) -> None:
        offsets = np.concatenate([chunk.to_numpy() for chunk in table.column("offset").chunks])
        first, last = int(offsets[0]), int(offsets[-1])
        if first < self._next or last >= self._target.end or not (np.diff(offsets) > 0).all():
            raise InvalidRecord(
                f"{self._target.key}: offsets {first} to {last} do not ascend from {self._next} "
                f"within [{self._target.start}, {self._target.end})"
            )
        times = [chunk.cast("int64").to_numpy() for chunk in table.column("timestamp").chunks]
        least = min(int(chunk.min()) for chunk in times) // 1000
        most = max(int(chunk.max()) for chunk in times) // 1000
        self.min_timestamp = min(self.min_timestamp, least) if self.rows else least
        self.max_timestamp = max(self.max_timestamp, most) if self.rows else most
        self.rows += table.num_rows
        self._next = last + 1
