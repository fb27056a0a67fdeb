from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.wire.batches.batch import HEADER
from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import Record, decode_batch, encode_batch
from headwater.wire.columnar import SCHEMA, decode, encode
from tests.support.wire.batches import codecs, record_lists


@given(
    records=record_lists(base_offset=100, max_size=30),
    codec=codecs,
    batch_bytes=st.sampled_from([0, 200, 1000, 10**6]),
    keep=st.sets(st.integers(0, 29)),
    after=st.integers(0, 5),
)
@settings(max_examples=150, deadline=None)
def test_rows_come_back_as_batches_that_cover_their_range(
    records: list[Record], codec: Codec, batch_bytes: int, keep: set[int], after: int
) -> None:
    kept = [record for index, record in enumerate(records) if index in keep] or records[:1]
    table = decode(encode_batch(kept, base_offset=90), 0)
    end = records[-1].offset + 1 + after
    batches = encode(table, 95, end, batch_bytes=batch_bytes, codec=codec)
    assert [record for batch in batches for record in decode_batch(batch)] == kept
    spans = [
        (fields[0], fields[0] + fields[6] + 1)
        for fields in (HEADER.unpack_from(batch) for batch in batches)
    ]
    assert spans[0][0] == 95
    assert spans[-1][1] == end
    assert all(left[1] == right[0] for left, right in pairwise(spans))
    assert decode(b"".join(batches), 0).select(range(6)) == table.select(range(6))


def test_batches_are_cut_near_the_size_asked_for() -> None:
    records = [Record(offset, 5, None, b"x" * 100) for offset in range(1000)]
    table = decode(encode_batch(records), 0)
    batches = encode(table, 0, 1000, batch_bytes=10_000)
    assert all(8_000 < len(batch) < 10_500 for batch in batches[:-1])
    (large,) = encode(table, 0, 1000, batch_bytes=10**7)
    assert decode_batch(large) == records
    assert len(encode(table, 0, 1000, batch_bytes=0)) == 1000


def test_header_fields_are_those_of_no_producer_and_the_largest_time() -> None:
    table = decode(encode_batch([Record(0, 9, b"k", None), Record(1, 7, None, b"v")]), 0)
    (batch,) = encode(table, 0, 2, batch_bytes=1000)
    fields = HEADER.unpack_from(batch)
    assert fields[5] == 0
    assert fields[7:] == (9, 9, -1, -1, -1, 2)


def test_slices_of_columns_are_encoded() -> None:
    records = [
        Record(offset, offset, b"k%d" % offset, None, ((b"h%d" % offset, b"v"),))
        for offset in range(10)
    ]
    table = decode(encode_batch(records), 0).slice(4, 3)
    (batch,) = encode(table, 4, 7, batch_bytes=10**6)
    assert decode_batch(batch) == records[4:7]


def test_a_range_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="0 rows"):
        encode(SCHEMA.empty_table().combine_chunks(), 0, 5, batch_bytes=100)
