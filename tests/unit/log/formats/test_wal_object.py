"""WAL objects: what is written is found again, and damage never goes unseen."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, StoreError, UnknownFormat
from headwater.log.formats.wal_object import (
    BLOCK,
    BLOCK_BYTES,
    Chunk,
    ChunkInfo,
    concatenate_chunks,
    encode_section,
    join_batches,
    parse_blocks,
    parse_section,
)
from headwater.wire.batches.batch import Batch, batch_sizes
from tests.support.log.harness import make_batch

BATCHES = st.lists(
    st.builds(
        lambda size, count, time: make_batch(b"x" * size, count=count, timestamp=time),
        st.one_of(st.integers(0, 300), st.sampled_from([20_000, BLOCK_BYTES, 3 * BLOCK_BYTES])),
        st.integers(1, 9),
        st.integers(-1, 10**13),
    ),
    min_size=1,
    max_size=12,
)


def chunks_of(batches: list[list[Batch]]) -> list[Chunk]:
    return [join_batches(stream * 3 + 1, some) for stream, some in enumerate(batches)]


def small_object() -> bytes:
    chunks = chunks_of([[make_batch(b"a"), make_batch(b"b", count=4)], [make_batch(b"c")]])
    return b"".join(encode_section(chunks, 123)[0])


@settings(max_examples=40)
@given(st.lists(BATCHES, min_size=1, max_size=4))
def test_an_object_lists_its_chunks_and_holds_their_bytes(batches: list[list[Batch]]) -> None:
    chunks = chunks_of(batches)
    parts, placements = encode_section(chunks, 123)
    data = b"".join(parts)
    assert list(parse_section(data)) == [
        ChunkInfo(
            chunk.stream,
            place.position,
            len(chunk.data),
            sum(batch.count for batch in chunk.batches),
            len(chunk.batches),
            max(batch.max_timestamp for batch in chunk.batches),
            place.blocks_position,
            place.blocks,
        )
        for chunk, place in zip(chunks, placements, strict=True)
    ]
    for chunk, place in zip(chunks, placements, strict=True):
        assert data[place.position : place.position + len(chunk.data)] == chunk.data


@given(BATCHES)
def test_blocks_cover_a_chunk_with_whole_batches(batches: list[Batch]) -> None:
    chunk = join_batches(1, batches)
    parts, (place,) = encode_section([chunk], 0)
    data = b"".join(parts)
    start = place.blocks_position
    blocks = parse_blocks(data[start : start + BLOCK.size * place.blocks])
    starts: dict[int, int] = {}
    records = 0
    for position, _size, count in batch_sizes(chunk.data):
        starts[position] = records
        records += count
    assert blocks[0].position == 0
    stops = [*(block.position for block in blocks[1:]), len(chunk.data)]
    for block, stop in zip(blocks, stops, strict=True):
        assert starts[block.position] == block.first_record
        assert block.position < stop
        inside = [
            batch
            for batch, position in zip(batches, starts, strict=True)
            if block.position <= position < stop
        ]
        assert block.max_timestamp == max(batch.max_timestamp for batch in inside)
        assert stop == len(chunk.data) or stop - block.position >= BLOCK_BYTES
        assert stop - block.position < BLOCK_BYTES + inside[-1].size


def test_a_changed_byte_anywhere_is_found() -> None:
    data = small_object()
    for position in range(len(data)):
        for flip in (0x01, 0x80):
            damaged = bytearray(data)
            damaged[position] ^= flip
            with pytest.raises((CorruptMessage, UnknownFormat)):
                list(parse_section(damaged))


def test_an_object_cut_short_or_grown_is_found() -> None:
    data = small_object()
    for length in range(len(data)):
        with pytest.raises(CorruptMessage):
            list(parse_section(data[:length]))
    with pytest.raises(CorruptMessage):
        list(parse_section(data + b"\0"))


def test_a_newer_version_is_named() -> None:
    data = bytearray(small_object())
    data[4:6] = (2).to_bytes(2, "big")
    with pytest.raises(UnknownFormat, match="version 2"):
        list(parse_section(data))


@given(st.binary(max_size=200))
@example(b"HWWO" + bytes(200))
def test_foreign_bytes_are_refused_by_name(data: bytes) -> None:
    with pytest.raises((CorruptMessage, StoreError)):
        list(parse_section(data))


@settings(max_examples=40)
@given(st.lists(BATCHES, min_size=1, max_size=4), st.data())
def test_joined_chunks_hold_what_was_not_left_out(
    batches: list[list[Batch]], data: st.DataObject
) -> None:
    given_chunks = []
    kept: list[Batch] = []
    for some in batches:
        numbers = st.lists(st.integers(0, len(some) - 1), max_size=3, unique=True)
        left_out = data.draw(numbers)
        given_chunks.append((join_batches(1, some).data, left_out))
        kept += [batch for number, batch in enumerate(some) if number not in left_out]
    joined = concatenate_chunks(1, given_chunks)
    assert b"".join(joined.parts) == b"".join(bytes(batch.data) for batch in kept)
    assert [batch.count for batch in joined.batches] == [batch.count for batch in kept]
    assert joined.length == sum(batch.size for batch in kept)
