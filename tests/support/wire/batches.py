"""Strategies for records, sample batches and ways to spoil them."""

import struct
from typing import Any

from crc32c import crc32c
from hypothesis import strategies as st

from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import Record, encode_batch

codecs = st.sampled_from(list(Codec))

optional_bytes = st.none() | st.binary(max_size=60)
headers = st.lists(st.tuples(st.binary(max_size=10), optional_bytes), max_size=3).map(tuple)


@st.composite
def record_lists(draw: Any, base_offset: int = 0, max_size: int = 12) -> list[Record]:
    rows = draw(
        st.lists(
            st.tuples(st.integers(-1, 2**41), optional_bytes, optional_bytes, headers),
            min_size=1,
            max_size=max_size,
        )
    )
    return [
        Record(base_offset + index, timestamp, key, value, record_headers)
        for index, (timestamp, key, value, record_headers) in enumerate(rows)
    ]


def some_batch(codec: int = 0, count: int = 5, **options: Any) -> bytes:
    records = [
        Record(
            index,
            1_700_000_000_000 + index * 7 % 20,
            None if index % 3 == 0 else b"key%d" % index,
            None if index % 4 == 3 else b"value" * index,
            ((b"h\xff", b"1"), (b"n", None)) if index % 2 else (),
        )
        for index in range(count)
    ]
    return encode_batch(records, codec=codec, **options)


def mutate(data: bytes, edits: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for position, value in edits:
        changed[position % len(changed)] = value
    return bytes(changed)


edits = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=6)


def resealed(data: bytes) -> bytes:
    """Whatever the bytes say, with a CRC that says so too."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]
