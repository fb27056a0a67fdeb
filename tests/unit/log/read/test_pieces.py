"""Pieces in memory, their cache, and how large chunks are cut into them."""

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import CorruptMessage, KafkaStorageError
from headwater.log.formats.metadata_values import WAL, IndexEntry
from headwater.log.formats.wal_object import _blocks, join_batches
from headwater.log.read.chunk_source import _cut
from headwater.log.read.pieces import Piece, PieceCache, make_piece
from headwater.telemetry.metrics import Metrics
from headwater.wire.batches.batch import HEADER, Batch, batch_sizes
from tests.support.log.harness import make_batch

START = 1000
BATCHES = st.lists(
    st.builds(
        lambda size, count: make_batch(b"x" * size, count=count),
        st.integers(0, 80),
        st.integers(1, 6),
    ),
    min_size=1,
    max_size=10,
)


def piece_of(batches: list[Batch], left_out: list[int] | None = None) -> Piece:
    gone = left_out or []
    records = sum(batch.count for number, batch in enumerate(batches) if number not in gone)
    return make_piece(
        join_batches(1, batches).data, START, START + records, leader_epoch=5, left_out=gone
    )


@given(BATCHES, st.data())
def test_a_slice_is_whole_batches_from_the_one_that_holds_the_offset(
    batches: list[Batch], data: st.DataObject
) -> None:
    piece = piece_of(batches)
    offset = data.draw(st.integers(START, piece.end - 1))
    max_bytes = data.draw(st.integers(-5, len(piece.data) + 5))
    owed = data.draw(st.booleans())
    reachable = [one for one in piece.ends if one > offset]
    before = data.draw(st.sampled_from([*reachable, piece.end + 7]))
    view, end = piece.slice(offset, before, max_bytes, at_least_one=owed)
    expected, position, at = b"", 0, START
    stop = offset
    for batch in batches:
        after = at + batch.count
        if after > offset:
            fits = len(expected) + batch.size <= max_bytes
            if after > before or (not fits and (expected or not owed)):
                break
            expected += bytes(piece.data[position : position + batch.size])
            stop = after
        position += batch.size
        at = after
    assert bytes(view) == expected
    assert end == stop
    for begin, _size, _count in batch_sizes(bytes(view)):
        assert HEADER.unpack_from(view, begin)[2] == 5


@given(BATCHES, st.data())
def test_left_out_batches_take_no_offsets(batches: list[Batch], data: st.DataObject) -> None:
    everyone = range(len(batches))
    left_out = data.draw(st.lists(st.sampled_from(everyone), unique=True, max_size=9))
    kept = [batch for number, batch in enumerate(batches) if number not in left_out]
    piece = piece_of(batches, left_out)
    offset = START
    for position, _size, count in batch_sizes(piece.data):
        assert HEADER.unpack_from(piece.data, position)[0] == offset
        offset += count
    assert offset == piece.end == START + sum(batch.count for batch in kept)
    assert len(piece.data) == sum(batch.size for batch in kept)


def test_a_chunk_that_does_not_make_up_its_range_is_corrupt() -> None:
    chunk = join_batches(1, [make_batch(count=3)]).data
    for end in (START + 2, START + 4):
        with pytest.raises(CorruptMessage):
            make_piece(bytearray(chunk), START, end, leader_epoch=0)
    with pytest.raises(CorruptMessage):
        make_piece(chunk[:-1], START, START + 3, leader_epoch=0)


def test_views_outlive_their_place_in_the_cache_and_cannot_be_written_to() -> None:
    view, _ = piece_of([make_batch(b"kept")]).slice(START, START + 1, 1, at_least_one=True)
    assert bytes(view).endswith(b"kept")
    assert view.readonly


def new_cache(max_bytes: int) -> PieceCache:
    metrics = Metrics()
    return PieceCache(max_bytes, metrics.cache_hits["piece"], metrics.cache_misses["piece"])


@given(st.integers(0, 2**32), st.integers(1, 2000))
def test_the_cache_is_bounded_and_drops_the_least_recently_used(seed: int, bound: int) -> None:
    rng = Random(seed)
    cache = new_cache(bound)
    order: list[int] = []
    sizes: dict[int, int] = {}
    for _ in range(60):
        number = rng.randrange(12)
        key = (1, number, number + 1, "k", -1)
        if rng.random() < 0.4:
            assert (cache.get(key) is not None) == (number in order)
            if number in order:
                order.remove(number)
                order.append(number)
            continue
        piece = piece_of([make_batch(b"x" * rng.randrange(400))])
        cache.put(key, piece)
        if number in order:
            order.remove(number)
        order.append(number)
        sizes[number] = len(piece.data)
        while len(order) > 1 and sum(sizes[one] for one in order) > bound:
            order.pop(0)
        assert cache.size == sum(sizes[one] for one in order)
        assert cache.size <= bound or len(order) == 1
        assert all(((1, n, n + 1, "k", -1) in cache) == (n in order) for n in range(12))


@given(
    st.lists(st.integers(0, 70_000), min_size=1, max_size=30), st.integers(1, 300_000), st.data()
)
def test_extents_cover_a_large_chunk_without_gap_or_overlap(
    sizes: list[int], read_bytes: int, data: st.DataObject
) -> None:
    batches = [
        make_batch(b"x" * size, count=1 + size % 4, timestamp=data.draw(st.integers(0, 99)))
        for size in sizes
    ]
    chunk = join_batches(1, batches)
    entry = IndexEntry(
        start=START, end=START + chunk.records, kind=WAL, length=len(chunk.data), size=0,
        max_timestamp=chunk.max_timestamp, created_ms=0,
    )  # fmt: skip
    extents = _cut(entry, _blocks(batches), read_bytes)
    assert extents[0].start == START
    assert extents[0].position == 0
    for one, following in itertools.pairwise(extents):
        assert one.end == following.start
        assert one.position + one.length == following.position
        assert one.length >= read_bytes
    assert extents[-1].end == entry.end
    assert extents[-1].position + extents[-1].length == entry.length
    assert max(extent.max_timestamp for extent in extents) == entry.max_timestamp
    for extent in extents:
        piece = make_piece(
            chunk.data[extent.position : extent.position + extent.length],
            extent.start,
            extent.end,
            leader_epoch=0,
        )
        times = [HEADER.unpack_from(piece.data, position)[8] for position in piece.positions]
        assert max(times) == extent.max_timestamp


def test_a_large_chunk_without_a_block_index_is_an_error_by_name() -> None:
    entry = IndexEntry(
        start=0, end=1, kind=WAL, length=9, size=9, max_timestamp=0, created_ms=0, key="wal/k"
    )
    with pytest.raises(KafkaStorageError, match="wal/k"):
        _cut(entry, [], 100)
