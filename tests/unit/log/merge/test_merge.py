"""Which entries are merged, and the swap that replaces them."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log.append.commit import Fenced
from headwater.log.formats.metadata_values import (
    INLINE,
    WAL,
    Incarnation,
    IndexEntry,
    Layout,
    ObjectRecord,
    Release,
)
from headwater.log.formats.wal_object import Placement
from headwater.log.merge.rank import (
    OPERATIONS_PER_STREAM,
    OPERATIONS_PER_SWAP,
    MergedRun,
    MergeSwap,
    divide_by_transaction,
    plan_merge,
    plan_relief,
    swap_runs,
)
from headwater.meta import keys
from headwater.meta.store import Entry, Limits, Writes
from headwater.meta.values import decode, encode

SMALL = 1 << 20
MOST = 4 << 20
FAN_IN = 8


def log_of(lengths: Sequence[int], gaps: frozenset[int] = frozenset()) -> list[IndexEntry]:
    entries, offset = [], 0
    for number, length in enumerate(lengths):
        offset += number in gaps
        entries.append(entry(offset, offset + 1, length))
        offset += 1
    return entries


def entry(start: int, end: int, length: int, kind: int = WAL) -> IndexEntry:
    return IndexEntry(
        start=start, end=end, kind=kind, length=length, size=end * 10, max_timestamp=start % 7,
        created_ms=start, store="s", key=f"wal/a/{start}.wo",
    )  # fmt: skip


def plan(entries: Sequence[IndexEntry], fan_in: int = FAN_IN) -> Sequence[IndexEntry]:
    return plan_merge(entries, fan_in=fan_in, small_bytes=SMALL, max_bytes=MOST)


def apply(entries: list[IndexEntry], run: Sequence[IndexEntry]) -> None:
    first = entries.index(run[0])
    merged = entry(run[0].start, run[-1].end, sum(one.length for one in run))
    entries[first : first + len(run)] = [merged]


LENGTHS = st.lists(
    st.one_of(
        st.integers(61, 5_000),
        st.integers(61, SMALL + 5),
        st.sampled_from([SMALL - 1, SMALL, 3 * MOST]),
    ),
    max_size=80,
)


@given(LENGTHS, st.frozensets(st.integers(0, 80)), st.integers(2, 40))
def test_a_run_is_contiguous_small_and_within_bounds(
    lengths: list[int], gaps: frozenset[int], fan_in: int
) -> None:
    entries = log_of(lengths, gaps)
    run = plan(entries, fan_in)
    if not run:
        return
    first = entries.index(run[0])
    assert entries[first : first + len(run)] == list(run)
    assert all(one.end == following.start for one, following in pairwise(run))
    assert all(one.length < SMALL for one in run)
    assert sum(one.length for one in run) <= MOST
    full = sum(one.length for one in run) + SMALL > MOST
    assert len(run) >= fan_in or (full and len(run) > 1)


@given(LENGTHS, st.frozensets(st.integers(0, 80), max_size=4))
def test_merging_ends_and_leaves_few_small_entries(
    lengths: list[int], gaps: frozenset[int]
) -> None:
    entries = log_of(lengths, gaps)
    for _ in range(len(lengths)):
        run = plan(entries)
        if not run:
            break
        before = len(entries)
        apply(entries, run)
        assert len(entries) < before
    assert not plan(entries)
    small: list[int] = []
    for one, following in pairwise([*entries, entry(10**6, 10**6 + 1, SMALL)]):
        if one.length < SMALL:
            small.append(one.length)
        if one.length >= SMALL or one.end != following.start:
            assert len(small) < FAN_IN or 2 * max(small) > sum(small)
            small = []


@given(LENGTHS, st.frozensets(st.integers(0, 80), max_size=4))
def test_a_short_run_is_the_beginning_of_one_and_ends_when_it_is_large(
    lengths: list[int], gaps: frozenset[int]
) -> None:
    entries = log_of(lengths, gaps)
    long = plan_merge(entries, fan_in=FAN_IN, small_bytes=SMALL, max_bytes=MOST)
    short = plan_merge(
        entries, fan_in=FAN_IN, small_bytes=SMALL, max_bytes=MOST, enough_bytes=SMALL
    )
    assert bool(short) == bool(long)
    assert short == long[: len(short)]
    if len(short) > FAN_IN and sum(one.length for one in short) >= SMALL:
        fewer = short[:-1]
        size = sum(one.length for one in fewer)
        assert size < SMALL or size < 2 * max(one.length for one in fewer)


@given(LENGTHS, st.integers(2, 40))
def test_a_run_has_no_more_entries_than_asked_for(lengths: list[int], most: int) -> None:
    entries = log_of(lengths)
    run = plan_merge(entries, fan_in=FAN_IN, small_bytes=SMALL, max_bytes=MOST, max_entries=most)
    assert len(run) <= most
    inline = [entry(one.start, one.end, one.length, INLINE) for one in entries]
    relief = plan_relief(inline, MOST, most)
    assert relief == plan_relief(inline, MOST)[:most]


def test_one_large_entry_is_not_rewritten_for_as_many_tiny_ones_as_a_run_may_have() -> None:
    entries = log_of([SMALL - 1, *[100] * 100])
    run = plan_merge(entries, fan_in=32, small_bytes=SMALL, max_bytes=MOST, max_entries=64)
    assert [one.length for one in run] == [100] * 64


@given(
    st.lists(st.integers(1, 80), max_size=40),
    st.none() | st.integers(6, 128),
    st.none() | st.integers(1, 100),
)
def test_runs_are_swapped_by_what_a_transaction_takes(
    lengths: list[int], operations: int | None, range_keys: int | None
) -> None:
    merged = [
        MergedRun(stream, log_of([100] * length), 1, 100 * length, Placement(0, 1, 1))
        for stream, length in enumerate(lengths)
    ]
    limits = Limits(operations=operations, range_keys=range_keys)
    transactions = list(divide_by_transaction(merged, limits))
    assert [one for some in transactions for one in some] == merged
    for some in transactions:
        assert some
        if operations is not None:
            needed = OPERATIONS_PER_SWAP + OPERATIONS_PER_STREAM * len(some)
            assert needed <= operations
        if range_keys is not None:
            assert len(some) == 1 or sum(len(one.run) for one in some) <= range_keys


def test_a_large_neighbour_does_not_make_a_short_run_worth_while() -> None:
    assert not plan(log_of([100, 100, 3 * MOST, 100, 100]))


@pytest.mark.parametrize("length", [100, 1_000, 10_000, 60_000])
@pytest.mark.parametrize("step", [1, 10, 33])
def test_a_steady_stream_is_rewritten_a_few_times_and_keeps_few_entries(
    length: int, step: int
) -> None:
    entries: list[IndexEntry] = []
    rewritten = 0
    for number in range(1_500):
        entries.append(entry(number, number + 1, length))
        if number % step == 0:
            while run := plan(entries, 32):
                rewritten += sum(one.length for one in run)
                apply(entries, run)
    assert rewritten <= 1_500 * length * 5
    assert len([one for one in entries if one.length < SMALL]) < 64


def swap_of(
    streams: Sequence[int], generations: Sequence[int] | None = None, kind: int = WAL
) -> MergeSwap:
    merged = [
        MergedRun(
            stream,
            [entry(start, start + 2, 50, kind) for start in (4, 6, 8)],
            generations[number] if generations else 3,
            150,
            Placement(100 * number, 10, 1),
        )
        for number, stream in enumerate(streams)
    ]
    return MergeSwap("a", "s", "wal/a/merged-1.wo", 999, 0, 1, merged)


def values_for(
    swap: MergeSwap, *, fenced: bool = False, generation: int = 3
) -> dict[str, Entry | None]:
    values: dict[str, Entry | None] = {
        key: Entry(key, encode(Layout(log_start=5, generation=generation)), 1) for key in swap.keys
    }
    own = keys.incarnation(0, "a")
    values[own] = None if fenced else Entry(own, encode(Incarnation(broker=1)), 1)
    values[swap.record_key] = None
    return values


def test_a_swap_replaces_the_run_and_releases_its_objects() -> None:
    swap = swap_of([1])
    writes, swapped = swap_runs(swap, 77)(values_for(swap))
    assert swapped == [1]
    new = decode(IndexEntry, writes.puts[keys.index_entry(0, 1, 10)])
    assert (new.start, new.end, new.length, new.size) == (4, 10, 150, 100)
    assert new.max_timestamp == 6
    assert new.created_ms == 8
    assert (new.key, new.position, new.blocks) == (swap.key, 0, (10, 1))
    assert writes.range_deletes == [(keys.index_entry(0, 1, 6), keys.index_entry(0, 1, 10))]
    layout = decode(Layout, writes.puts[keys.layout(0, 1)])
    assert (layout.generation, layout.log_start) == (4, 5)
    (released,) = [v for k, v in writes.puts.items() if k.startswith(keys.releases(0))]
    assert decode(Release, released).chunks == [(f"wal/a/{n}.wo", 0, 1) for n in (4, 6, 8)]
    assert decode(ObjectRecord, writes.puts[swap.record_key]).live == [1]


def test_inline_entries_are_merged_without_a_release() -> None:
    swap = swap_of([1], kind=INLINE)
    writes, _ = swap_runs(swap, 0)(values_for(swap))
    assert not [key for key in writes.puts if key.startswith(keys.releases(0))]


def test_a_stream_rearranged_meanwhile_is_left_out() -> None:
    swap = swap_of([1, 2, 3], [3, 2, 3])
    writes, swapped = swap_runs(swap, 0)(values_for(swap))
    assert swapped == [1, 3]
    assert decode(ObjectRecord, writes.puts[swap.record_key]).live == [1, 3]
    assert keys.layout(0, 2) not in writes.puts
    nobody = swap_runs(swap, 0)(values_for(swap, generation=9))
    assert nobody == (Writes(), [])


def test_a_swap_that_landed_is_not_done_again() -> None:
    swap = swap_of([1, 2])
    values = values_for(swap)
    writes, swapped = swap_runs(swap, 0)(values)
    for key in swap.keys:
        if key in writes.puts:
            values[key] = Entry(key, writes.puts[key], 2)
    assert swap_runs(swap, 0)(values) == (Writes(), swapped)


def test_a_fenced_broker_swaps_nothing() -> None:
    swap = swap_of([1])
    with pytest.raises(Fenced):
        swap_runs(swap, 0)(values_for(swap, fenced=True))


@given(st.integers(1, 40))
def test_a_swap_stays_within_the_operations_it_is_counted_with(streams: int) -> None:
    swap = swap_of(range(1, streams + 1))
    writes, _ = swap_runs(swap, 0)(values_for(swap))
    bound = OPERATIONS_PER_SWAP + OPERATIONS_PER_STREAM * streams
    assert len(writes.puts) + len(writes.range_deletes) + len(writes.deletes) <= bound
    assert len(swap.keys) <= bound


def test_the_first_inline_run_is_relieved_however_short() -> None:
    first, stored, last = entry(0, 1, 10, INLINE), entry(1, 2, 10), entry(2, 3, 10, INLINE)
    assert plan_relief([first, stored, last], 100) == [first]
    assert plan_relief([stored, last], 100) == [last]
    assert plan_relief([first, last], 100) == [first]
    assert plan_relief([last, entry(3, 4, 95, INLINE)], 100) == [last]
    assert not plan_relief([stored], 100)
