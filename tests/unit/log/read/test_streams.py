"""What a broker remembers of streams may lag, and is never wrong."""

import asyncio
import itertools

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.formats.metadata_values import WAL, IndexEntry
from headwater.log.read.streams import Streams, StreamState, StreamWaiter, Window


def entry(start: int, end: int) -> IndexEntry:
    return IndexEntry(
        start=start, end=end, kind=WAL, length=1, size=0, max_timestamp=0, created_ms=0
    )


def dense_log(lengths: list[int]) -> list[IndexEntry]:
    entries, offset = [], 0
    for length in lengths:
        entries.append(entry(offset, offset + length))
        offset += length
    return entries


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("committed"), st.integers(0, 19)),
        st.tuples(st.just("advance"), st.integers(0, 19)),
        st.tuples(st.just("look_up"), st.integers(0, 19)),
        st.tuples(st.just("rearranged"), st.integers(0, 19)),
    ),
    max_size=60,
)


@given(
    st.lists(st.integers(1, 4), min_size=20, max_size=20),
    EVENTS,
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.integers(0, 80), min_size=20, max_size=20).map(sorted),
)
def test_an_entry_that_is_found_holds_the_offset(
    lengths: list[int],
    events: list[tuple[str, int]],
    keep: int,
    in_order: bool,
    last_stable: list[int],
) -> None:
    log = dense_log(lengths)
    stable = [min(one.end, wanted) for one, wanted in zip(log, last_stable, strict=True)]
    state = StreamState()
    if in_order:
        numbers = iter(sorted(number for kind, number in events if kind == "committed"))
        events = [
            (kind, next(numbers)) if kind == "committed" else (kind, number)
            for kind, number in events
        ]
    high_watermark = log_start = told = 0
    for kind, number in events:
        one = log[number]
        match kind:
            case "committed":
                state.committed(one, keep, last_stable=stable[number])
            case "advance":
                state.advance(one.end, stable[number])
            case "look_up":
                state.cold = Window(log[number : number + 3])
            case _:
                state.rearranged(one.start)
        assert state.high_watermark >= high_watermark
        assert state.log_start >= log_start
        assert told <= state.last_stable <= state.high_watermark
        assert state.last_stable in {0, *stable}
        high_watermark, log_start, told = state.high_watermark, state.log_start, state.last_stable
        assert len(state.recent.entries) <= 2 * keep
        for offset in range(log[-1].end + 2):
            found = state.find(offset)
            assert found is None or found.start <= offset < found.end
        recent = state.recent.entries
        assert all(a.end == b.start for a, b in itertools.pairwise(recent))


def test_commits_in_order_are_all_found_within_the_window() -> None:
    state = StreamState()
    log = dense_log([2] * 50)
    for one in log:
        state.committed(one, 10, last_stable=one.end)
    assert [state.find(offset) for offset in range(80, 100)] == [
        log[offset // 2] for offset in range(80, 100)
    ]
    assert state.find(100) is None


def waiting_for(*states: StreamState) -> StreamWaiter:
    """A waiter behind a read of these streams as they are."""
    for state in states:
        state.loaded = True
    return StreamWaiter([(state, state.offsets) for state in states])


async def test_a_change_between_a_read_and_its_waiter_is_not_lost() -> None:
    state = StreamState()
    state.loaded = True
    seen = state.offsets
    state.committed(entry(0, 1), 10, last_stable=1)
    waiter = StreamWaiter([(state, seen)])
    assert await waiter.wait(0)
    assert not await waiter.wait(0)
    waiter.close()


async def test_bounds_that_are_not_trusted_any_more_are_a_change() -> None:
    streams = Streams()
    streams[1].loaded = True
    seen = streams[1].offsets
    streams.invalidate_bounds()
    waiter = StreamWaiter([(streams[1], seen)])
    assert await waiter.wait(0)
    waiter.close()


async def test_a_change_between_read_and_wait_is_not_lost() -> None:
    state = StreamState()
    waiter = waiting_for(state)
    state.committed(entry(0, 1), 10, last_stable=1)
    assert await waiter.wait(0)
    assert not await waiter.wait(0)
    waiter.close()


async def test_a_repeated_change_wakes_no_long_poll() -> None:
    state = StreamState()
    state.committed(entry(0, 5), 10, last_stable=5)
    waiter = waiting_for(state)
    state.committed(entry(0, 5), 10, last_stable=5)
    state.advance(5, 5)
    state.advance(3, 3)
    assert not await waiter.wait(0)
    waiter.close()


async def test_an_end_of_a_transaction_wakes_who_waits_for_stable_records() -> None:
    state = StreamState()
    state.committed(entry(0, 5), 10, last_stable=2)
    waiter = waiting_for(state)
    state.advance(5, 5)
    assert await waiter.wait(0)
    assert state.offsets.last_stable == 5
    waiter.close()


async def test_every_waiter_of_a_stream_wakes_and_a_closed_one_is_forgotten() -> None:
    streams = Streams()
    waiters = [waiting_for(streams[1], streams[2]) for _ in range(3)]
    tasks = [asyncio.create_task(waiter.wait(10)) for waiter in waiters]
    await asyncio.sleep(0)
    streams[2].committed(entry(0, 1), 10, last_stable=1)
    assert await asyncio.gather(*tasks) == [True, True, True]
    for waiter in waiters:
        waiter.close()
    assert not streams[1].waiters
    assert not streams[2].waiters


async def test_a_cancelled_wait_leaves_the_waiter_usable() -> None:
    state = StreamState()
    waiter = waiting_for(state)
    task = asyncio.create_task(waiter.wait(10))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    state.advance(1, 1)
    assert await waiter.wait(10)
    waiter.close()
    assert not state.waiters


async def test_missed_changes_and_deletion_wake_long_polls() -> None:
    streams = Streams()
    streams[1].loaded = True
    waiter = waiting_for(streams[1])
    streams.invalidate_bounds()
    assert not streams[1].loaded
    assert await waiter.wait(0)
    streams.drop(1)
    assert await waiter.wait(0)
    assert streams.get(1) is None
    waiter.close()
