"""Changed bytes of a data file's footer, read in a process of its own as the pipeline reads it."""

import io
import sys
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptMessage
from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.log.read.parquet.source import MAGIC, TRAILER
from headwater.pipeline.source.filters import ReadFilter
from headwater.pipeline.source.record_batches import parquet_batches
from headwater.pipeline.upkeep.table_restores import data_file
from headwater.tables.commit.statistics import STATISTICS
from headwater.tables.schema import ARROW

MASKS = (1, 143)
"""Two changes of each byte: the length of a value becomes another, or far too long."""


class Content:
    """See ``object_reads.ObjectReads``."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, _key: str, start: int, length: int) -> bytearray:
        return bytearray(self._data[start : start + length])

    def expect(self, ranges: object) -> None: ...

    def close(self) -> None: ...


def file_of_a_table() -> bytes:
    numbers = ("producer_id", "producer_epoch", "base_sequence", "attributes", "record_crc")
    row = {"partition": 0, "offset": 0, "timestamp": 0, "key": b"k", "value": b"v", "headers": []}
    file = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist([{**dict.fromkeys(numbers, 0), **row}], ARROW),
        file,
        store_schema=False,
        compression="none",
        use_dictionary=False,
        write_statistics=list(STATISTICS),
    )
    return file.getvalue()


def read_rows(content: bytes, entry: IndexEntry) -> None:
    names = ["offset", "value"]
    for batch in parquet_batches(entry, Content(content), 0, 1, names, ReadFilter()):
        batch.validate()


def read_statistics(content: bytes, entry: IndexEntry) -> None:
    begin = len(content) - TRAILER - int.from_bytes(content[-TRAILER : -len(MAGIC)], "little")
    data_file(bytearray(content[max(0, begin) :]), 0, entry)


READINGS: dict[str, Callable[[bytes, IndexEntry], None]] = {
    "rows": read_rows,
    "statistics": read_statistics,
}


def read_changes(reading: str) -> tuple[int, int]:
    """How many changed footers were read, and how many were refused."""
    content = file_of_a_table()
    entry = IndexEntry(
        start=0, end=1, kind=PARQUET, length=len(content), size=len(content),
        max_timestamp=0, created_ms=0, key="changed",
    )  # fmt: skip
    READINGS[reading](content, entry)
    begin = len(content) - TRAILER - int.from_bytes(content[-TRAILER : -len(MAGIC)], "little")
    read = refused = 0
    for at in range(begin, len(content)):
        for mask in MASKS:
            changed = bytearray(content)
            changed[at] ^= mask
            try:
                READINGS[reading](bytes(changed), entry)
                read += 1
            except CorruptMessage:
                refused += 1
    return read, refused


if __name__ == "__main__":
    counts = read_changes(sys.argv[1])
    sys.stdout.write(f"{counts[0]} {counts[1]}")
