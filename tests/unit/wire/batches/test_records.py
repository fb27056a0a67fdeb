import contextlib
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from headwater.wire.batches import record_walk, walk_kernel
from headwater.wire.batches.batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, split_batches
from headwater.wire.batches.codecs import Buffer, Codec
from headwater.wire.batches.record_walk import RecordSearch
from headwater.wire.batches.records import (
    Record,
    decode_batch,
    encode_batch,
    recompress,
    search_batch,
    with_log_append_time,
)
from tests.support.wire.batches import codecs, edits, mutate, record_lists, resealed, some_batch

SEARCHES = [record_walk.search, walk_kernel.search]
ROOM = 1 << 20


def first_at_or_after(data: Buffer, timestamp: int, least: int = 0) -> tuple[int, int] | None:
    """Offset delta and timestamp of the record, on which both searches agree."""
    found = [search_batch(data, timestamp, least, search, ROOM) for search in SEARCHES]
    assert found[0] == found[1]
    return found[0][1:3] if found[0] is not None and found[0].delta >= 0 else None


@given(records=record_lists(base_offset=7), codec=codecs)
@settings(deadline=None)
def test_records_come_back_as_they_went_in(records: list[Record], codec: Codec) -> None:
    data = encode_batch(records, codec=codec, producer_id=5, producer_epoch=2, base_sequence=9)
    assert decode_batch(data) == records
    assert [record.offset for record in decode_batch(data, base_offset=100)] == [
        record.offset + 93 for record in records
    ]


@given(records=record_lists(), codec=codecs)
@settings(deadline=None)
def test_encoded_batches_pass_the_checks_of_a_produce_request(
    records: list[Record], codec: Codec
) -> None:
    (batch,) = split_batches(encode_batch(records, codec=codec, producer_id=5, base_sequence=9))
    assert batch.count == len(records)
    assert batch.codec == codec
    assert batch.base_timestamp == records[0].timestamp
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert (batch.producer_id, batch.base_sequence) == (5, 9)


def test_batches_of_aiokafka_are_decoded() -> None:
    for codec in (0, 1):
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=100_000,
        )
        builder.append(0, 1000, b"k", b"v", [("h", b"x"), ("n", None)])
        builder.append(1, 990, None, b"w" * 500, [])
        builder.append(2, 1010, b"", None, [])
        assert decode_batch(bytes(builder.build())) == [
            Record(0, 1000, b"k", b"v", ((b"h", b"x"), (b"n", None))),
            Record(1, 990, None, b"w" * 500),
            Record(2, 1010, b"", None),
        ]


def test_batches_are_read_by_aiokafka() -> None:
    for codec in (Codec.NONE, Codec.GZIP):
        records = [Record(0, 1000, b"k", b"v", ((b"h", b"x"),)), Record(1, 1005, None, None)]
        batch = DefaultRecordBatch(encode_batch(records, codec=codec))
        assert batch.validate_crc()
        seen = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch]
        assert seen == [(0, 1000, b"k", b"v", [("h", b"x")]), (1, 1005, None, None, [])]


def test_records_of_a_control_batch_are_marked() -> None:
    (record,) = decode_batch(encode_batch([Record(0, 1, b"\0\0\0\1", b"")], attributes=CONTROL))
    assert record.is_control


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("other", list(Codec))
def test_recompressing_changes_the_codec_and_nothing_else(codec: Codec, other: Codec) -> None:
    data = some_batch(codec, producer_id=4, producer_epoch=1, base_sequence=3, attributes=0x10)
    (batch,) = split_batches(data)
    again = recompress(batch, other)
    assert split_batches(again.data) == [again]
    assert again.codec == other
    assert again.is_transactional
    assert (again.producer_id, again.producer_epoch, again.base_sequence) == (4, 1, 3)
    assert decode_batch(again.data) == decode_batch(data)


def test_log_append_time_stamps_every_record_and_leaves_their_bytes() -> None:
    (batch,) = split_batches(some_batch(Codec.ZSTD))
    stamped = with_log_append_time(batch, 1_800_000_000_000)
    assert split_batches(stamped.data) == [stamped]
    assert stamped.attributes & LOG_APPEND_TIME
    assert bytes(stamped.data[HEADER_SIZE:]) == bytes(batch.data[HEADER_SIZE:])
    assert {record.timestamp for record in decode_batch(stamped.data)} == {1_800_000_000_000}
    assert first_at_or_after(stamped.data, 1_800_000_000_000) == (0, 1_800_000_000_000)
    assert first_at_or_after(stamped.data, 1_800_000_000_001) is None


@given(
    records=record_lists(), codec=codecs, timestamp=st.integers(-1, 2**41), least=st.integers(0, 12)
)
@settings(deadline=None)
def test_lookups_by_time_are_exact_to_the_record(
    records: list[Record], codec: Codec, timestamp: int, least: int
) -> None:
    data = encode_batch(records, codec=codec)
    kept = records[least:]
    for wanted in (timestamp, records[-1].timestamp):
        expected = next(((r.offset, r.timestamp) for r in kept if r.timestamp >= wanted), None)
        assert first_at_or_after(data, wanted, least) == expected
    latest = max((record.timestamp for record in kept), default=-1)
    for search in SEARCHES:
        found = search_batch(data, 2**63 - 1, least, search, ROOM)
        assert found is not None
        assert (found.delta, found.largest) == (-1, latest)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("search", SEARCHES)
def test_a_lookup_decompresses_no_further_than_to_what_it_finds(
    search: RecordSearch, codec: Codec
) -> None:
    data = encode_batch([Record(n, n, None, b"v" * 100) for n in range(1000)], codec=codec)
    found = search_batch(data, 10, 0, search, 4096)
    assert found is not None
    assert found.delta == 10
    assert search_batch(data, 900, 0, search, 4096) is None


def test_an_empty_list_of_records_is_no_batch() -> None:
    with pytest.raises(InvalidRecord):
        encode_batch([])


def test_a_wrong_crc_is_corrupt() -> None:
    data = some_batch()
    with pytest.raises(CorruptMessage, match="CRC"):
        decode_batch(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize("count", [-1, 4, 6, 2**31 - 1])
def test_a_count_that_the_records_do_not_bear_out_is_invalid(count: int) -> None:
    data = some_batch()
    with pytest.raises(InvalidRecord):
        decode_batch(resealed(data[:57] + struct.pack(">i", count) + data[61:]))


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_are_no_batch(data: bytes) -> None:
    with contextlib.suppress(CorruptMessage, InvalidRecord, UnsupportedCompressionType):
        decode_batch(data)


@given(codec=codecs, changes=edits)
@settings(max_examples=400, deadline=None)
def test_mutated_batches_decode_or_are_refused(
    codec: Codec, changes: list[tuple[int, int]]
) -> None:
    data = resealed(mutate(some_batch(codec), changes))
    for read in (decode_batch, lambda batch: first_at_or_after(batch, 2**62)):
        with contextlib.suppress(CorruptMessage, InvalidRecord, UnsupportedCompressionType):
            read(data)
