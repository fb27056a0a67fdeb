import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from headwater.wire.batches.batch import CONTROL, batch_sizes, split_batches
from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import Record, decode_batch, encode_batch, with_log_append_time
from headwater.wire.columnar import SCHEMA, decode
from tests.support.wire.batches import codecs, edits, mutate, record_lists, resealed, some_batch


def rows(table: Any) -> list[Record]:
    """The columns as the plain decoder's records."""
    return [
        Record(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in table.set_column(
            2,
            "timestamp",
            [value // 1000 for value in table["timestamp"].cast("int64").to_pylist()],
        ).to_pylist()
    ]


def plain(data: bytes) -> list[Record]:
    return [
        record
        for position, size, _count in batch_sizes(data)
        for record in decode_batch(data[position : position + size])
    ]


@given(batches=st.lists(st.tuples(record_lists(base_offset=3), codecs), max_size=4))
@settings(max_examples=150, deadline=None)
def test_columns_hold_what_the_plain_decoder_finds(
    batches: list[tuple[list[Record], Codec]],
) -> None:
    data = b"".join(
        encode_batch(records, codec=codec, base_offset=0, producer_id=index)
        for index, (records, codec) in enumerate(batches)
    )
    table = decode(data, 11)
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert rows(table) == plain(data)
    assert table["partition"].to_pylist() == [11] * table.num_rows


def test_the_batches_own_fields_are_repeated_for_each_record() -> None:
    one = some_batch(4, count=2, producer_id=7, producer_epoch=3, base_sequence=5)
    table = decode(one + some_batch(0, count=1, attributes=0x10), 0)
    assert table["producer_id"].to_pylist() == [7, 7, -1]
    assert table["producer_epoch"].to_pylist() == [3, 3, -1]
    assert table["base_sequence"].to_pylist() == [5, 5, -1]
    assert table["attributes"].to_pylist() == [4, 4, 0x10]


def test_control_batches_have_no_rows() -> None:
    marker = encode_batch([Record(5, 1, b"\0\0\0\1", b"")], attributes=CONTROL)
    data = some_batch(count=5) + marker + some_batch(count=2, base_offset=0)
    assert rows(decode(data, 0)) == [record for record in plain(data) if not record.is_control]
    assert decode(marker, 0).num_rows == 0


def test_no_batches_are_no_rows() -> None:
    assert decode(b"", 0).num_rows == 0


def test_log_append_time_holds_for_every_record() -> None:
    (batch,) = split_batches(some_batch(2))
    data = bytes(with_log_append_time(batch, 1_800_000_000_000).data)
    assert rows(decode(data, 0)) == plain(data)


@pytest.mark.parametrize("timestamp", [2**63 // 1000 + 1, 2**62])
def test_times_that_microseconds_cannot_hold_are_invalid(timestamp: int) -> None:
    with pytest.raises(InvalidRecord):
        decode(encode_batch([Record(0, timestamp, None, None)]), 0)


def test_offsets_that_do_not_ascend_are_invalid() -> None:
    records = [Record(0, 1, None, b"a"), Record(0, 1, None, b"b"), Record(2, 1, None, b"c")]
    with pytest.raises(InvalidRecord):
        decode(encode_batch(records), 0)


def test_a_cut_or_spoilt_buffer_is_corrupt() -> None:
    data = some_batch() * 2
    for end in range(1, len(data)):
        if end != len(data) // 2:
            with pytest.raises(CorruptMessage):
                decode(data[:end], 0)
    with pytest.raises(CorruptMessage, match="CRC"):
        decode(data[:-1] + b"?", 0)


@pytest.mark.parametrize("count", [-1, 4, 6, 2**31 - 1])
def test_a_count_that_the_records_do_not_bear_out_is_invalid(count: int) -> None:
    data = some_batch()
    with pytest.raises(InvalidRecord):
        decode(resealed(data[:57] + struct.pack(">i", count) + data[61:]), 0)


@given(codec=codecs, changes=edits)
@settings(max_examples=400, deadline=None)
def test_mutated_batches_decode_as_the_plain_decoder_does_or_are_refused(
    codec: Codec, changes: list[tuple[int, int]]
) -> None:
    data = resealed(mutate(some_batch(codec), changes))
    try:
        table = decode(data, 0)
    except (CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        return
    table.validate(full=True)
    if table.num_rows:
        assert rows(table) == plain(data)


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        decode(resealed(data.ljust(61, b"\0")), 0)
