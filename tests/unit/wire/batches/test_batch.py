import contextlib
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, InvalidRecord, UnsupportedForMessageFormat
from headwater.wire.batches.batch import (
    CONTROL,
    HEADER,
    HEADER_SIZE,
    MAX_SEQUENCE,
    Batch,
    batch_sizes,
    next_sequence,
    set_base_offset,
    split_batches,
)
from headwater.wire.batches.records import decode_batch
from tests.support.wire.batches import codecs, edits, mutate, resealed, some_batch


def test_the_header_has_kafkas_size() -> None:
    assert HEADER_SIZE == HEADER.size == 61


def test_batches_back_to_back_are_split_without_a_copy() -> None:
    one, two = some_batch(count=3), some_batch(codec=4, count=5, attributes=CONTROL)
    records = memoryview(one + two)
    first, second = split_batches(records)
    assert (bytes(first.data), bytes(second.data)) == (one, two)
    assert isinstance(first.data, memoryview)
    assert first.data.obj is records.obj
    assert (first.count, second.count) == (3, 5)
    assert (first.size, second.size) == (len(one), len(two))
    assert (first.codec, second.codec) == (0, 4)
    assert (first.is_control, second.is_control) == (False, True)
    assert list(batch_sizes(records)) == [(0, len(one), 3), (len(one), len(two), 5)]


def test_a_single_batch_keeps_its_buffer() -> None:
    data = some_batch()
    (batch,) = split_batches(data)
    assert batch.data is data


def test_no_batch_at_all_is_invalid() -> None:
    with pytest.raises(InvalidRecord):
        split_batches(b"")


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_another_format_is_named(magic: int) -> None:
    data = some_batch()
    changed = data[:16] + bytes([magic]) + data[17:]
    with pytest.raises(UnsupportedForMessageFormat):
        split_batches(changed)
    with pytest.raises(UnsupportedForMessageFormat):
        split_batches(changed[:30])


def test_a_batch_cut_anywhere_is_corrupt() -> None:
    data = some_batch()
    for end in range(1, len(data)):
        with pytest.raises(CorruptMessage):
            split_batches(data[:end])
        with pytest.raises(CorruptMessage):
            list(batch_sizes(data[:end]))


def test_every_flipped_bit_under_the_crc_is_found() -> None:
    data = some_batch()
    for position in range(17, len(data)):
        flipped = data[:position] + bytes([data[position] ^ 4]) + data[position + 1 :]
        with pytest.raises(CorruptMessage):
            split_batches(flipped)


@pytest.mark.parametrize(("last_delta", "count"), [(4, 4), (4, 6), (-1, 0), (4, -5), (5, 5)])
def test_counts_that_disagree_are_invalid(last_delta: int, count: int) -> None:
    data = bytearray(some_batch(count=5))
    data[23:27] = struct.pack(">i", last_delta)
    data[57:61] = struct.pack(">i", count)
    with pytest.raises(InvalidRecord):
        split_batches(resealed(bytes(data)))


def test_an_offset_is_set_without_touching_the_crc() -> None:
    data = bytearray(some_batch(count=2))
    set_base_offset(data, 0, 2**40, 9)
    assert [record.offset for record in decode_batch(data)] == [2**40, 2**40 + 1]
    assert struct.unpack_from(">i", data, 12) == (9,)


def test_sequence_numbers_wrap() -> None:
    assert next_sequence(MAX_SEQUENCE, 1) == 0
    assert next_sequence(MAX_SEQUENCE - 1, 3) == 1
    batch = Batch(b"", 3, 0, 0, 0, 1, 0, MAX_SEQUENCE - 1)
    assert batch.last_sequence == 0


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_split_or_refused(data: bytes) -> None:
    with contextlib.suppress(CorruptMessage, InvalidRecord, UnsupportedForMessageFormat):
        split_batches(data)
    with contextlib.suppress(CorruptMessage):
        list(batch_sizes(data))


@given(codec=codecs, changes=edits, copies=st.integers(1, 3))
@settings(max_examples=200, deadline=None)
def test_mutated_batches_are_split_or_refused(
    codec: int, changes: list[tuple[int, int]], copies: int
) -> None:
    data = mutate(some_batch(codec) * copies, changes)
    for whole in (data, resealed(data)):
        with contextlib.suppress(CorruptMessage, InvalidRecord, UnsupportedForMessageFormat):
            assert sum(batch.size for batch in split_batches(whole)) == len(whole)
        with contextlib.suppress(CorruptMessage):
            assert sum(size for _, size, _ in batch_sizes(whole)) == len(whole)
