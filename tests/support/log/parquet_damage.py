"""Every single-byte change of a small Parquet file's footer, read in a process of its own."""

import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import CorruptMessage
from headwater.log.formats.metadata_values import PARQUET, IndexEntry
from headwater.log.read.parquet.rows import parse_footer, read_piece
from headwater.log.read.parquet.source import MAGIC, TRAILER
from headwater.wire.columnar.encoder import COLUMNS
from headwater.wire.columnar.schema import SCHEMA

READ_MASKS = (1, 143)
"""Changes after which the rows are read too, if the footer can be: that takes longer."""


def small_file() -> bytes:
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    row = {"offset": 0, "timestamp": 0, "key": b"k", "value": b"v", "headers": []}
    file = io.BytesIO()
    pq.write_table(
        pa.Table.from_pylist([row], schema=schema),
        file,
        store_schema=False,
        compression="none",
        use_dictionary=False,
        write_statistics=["offset", "timestamp"],
    )
    return file.getvalue()


def read_every_change(content: bytes, part: int, parts: int) -> tuple[int, int]:
    """How many changed footers were read, and how many were refused, of a part of all bytes."""
    entry = IndexEntry(
        start=0, end=1, kind=PARQUET, length=len(content), size=len(content),
        max_timestamp=0, created_ms=0, key="changed",
    )  # fmt: skip
    begin = len(content) - TRAILER - int.from_bytes(content[-TRAILER : -len(MAGIC)], "little")
    read = refused = 0
    for at in range(begin + part, len(content), parts):
        for mask in range(1, 256):
            tail = bytearray(content[begin:])
            tail[at - begin] ^= mask
            try:
                footer = parse_footer(tail, entry)
                if mask in READ_MASKS:
                    for extent in footer.extents:
                        data = content[extent.position : extent.position + extent.length]
                        if extent.row_group >= 0:
                            read_piece(footer, extent, bytearray(data), 0)
                read += 1
            except CorruptMessage:
                refused += 1
    return read, refused


if __name__ == "__main__":
    counts = read_every_change(small_file(), int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(f"{counts[0]} {counts[1]}")
