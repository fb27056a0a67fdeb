"""When streams are merged, and which of them together."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.merge.rounds import (
    MANY_ENTRIES,
    OVERDUE_RUNS,
    RECENT_RUNS,
    TAKEN_ALONG_RUNS,
    MergeRounds,
)
from headwater.log.settings import LogSettings

FAN_IN = 8
SMALL = 1_000
OBJECT = 10_000
DIRECT = LogSettings(merge_fan_in=FAN_IN, merge_small_bytes=SMALL, merge_bytes=OBJECT)
PAID = LogSettings(
    merge_fan_in=FAN_IN, merge_small_bytes=SMALL, merge_bytes=OBJECT, flush_interval_ms=200
)


def rounds(settings: LogSettings, share: int | None = None) -> MergeRounds:
    return MergeRounds(settings, lambda stream: share is None or stream % 2 == share)


def fill(them: MergeRounds, streams: range, entries: int, length: int) -> None:
    for _ in range(entries):
        for stream in streams:
            them.added(stream, length)


def test_where_objects_cost_nothing_streams_are_merged_as_soon_as_they_are_ripe() -> None:
    them = rounds(DIRECT)
    fill(them, range(1, 4), RECENT_RUNS * FAN_IN - 1, 10)
    assert them.next() == []
    them.added(2, 10)
    assert them.next() == [2]
    assert them.next() == []


def test_large_entries_do_not_count() -> None:
    them = rounds(DIRECT)
    fill(them, range(1, 2), RECENT_RUNS * FAN_IN, SMALL)
    assert them.next() == []


def test_where_they_are_paid_for_a_round_waits_until_it_fills_one() -> None:
    them = rounds(PAID)
    ripe = RECENT_RUNS * FAN_IN
    fill(them, range(1, 4), ripe, 100)  # 3,200 bytes each
    assert them.next() == []
    fill(them, range(4, 5), ripe - 1, 100)
    assert them.next() == []
    fill(them, range(5, 6), TAKEN_ALONG_RUNS * FAN_IN, 100)
    fill(them, range(6, 7), TAKEN_ALONG_RUNS * FAN_IN - 1, 100)
    them.added(4, 100)
    assert them.next() == [1, 2, 3, 4, 5]  # the fifth goes along
    assert them.next() == []


def test_streams_with_few_bytes_wait_for_more_entries() -> None:
    them = rounds(PAID)
    fill(them, range(1, 2), OVERDUE_RUNS * FAN_IN - 1, 1)
    assert them.next() == []
    them.added(1, 1)
    assert them.next() == [1]


def test_many_entries_are_worth_an_object() -> None:
    them = rounds(PAID)
    streams = MANY_ENTRIES // (RECENT_RUNS * FAN_IN)
    fill(them, range(1, streams), RECENT_RUNS * FAN_IN, 1)
    assert them.next() == []
    fill(them, range(streams, streams + 1), RECENT_RUNS * FAN_IN, 1)
    assert them.next() == list(range(1, streams + 1))


def test_another_brokers_streams_are_left_to_it_and_not_remembered() -> None:
    them = rounds(DIRECT, share=0)
    fill(them, range(1, 6), RECENT_RUNS * FAN_IN, 10)
    them.forget([4])
    assert them.next() == [2]
    assert them.foreign() == [1, 3, 5]
    assert them.foreign() == []
    assert not them._small


def test_what_has_more_to_merge_stays_ripe() -> None:
    them = rounds(DIRECT)
    fill(them, range(1, 3), RECENT_RUNS * FAN_IN, 10)
    assert them.next() == [1, 2]
    them.keep([2])
    assert them.next() == [2]


def test_what_is_left_of_a_stream_counts_with_what_comes() -> None:
    them = rounds(PAID)
    ripe = RECENT_RUNS * FAN_IN
    fill(them, range(1, 4), ripe, 200)
    assert them.next() == [1, 2, 3]
    fill(them, range(1, 4), 1, 200)  # is seen by the plan as well
    for stream in (1, 2, 3):
        them.found(stream, ripe + 1, 9_200)
    fill(them, range(1, 4), 1, 200)  # is not
    for stream in (1, 2, 3):
        them.taken(stream, 3, 200)
    assert them.next() == []
    them.added(3, 200)
    them.added(2, 200)
    assert them.next() == [1, 2, 3]  # the first one goes along
    assert them.next() == []


def test_what_is_forgotten_meanwhile_does_not_come_back() -> None:
    them = rounds(DIRECT)
    fill(them, range(1, 2), RECENT_RUNS * FAN_IN, 10)
    them.forget([1])
    them.taken(1, 1, 10)
    assert not them._small


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 2 * SMALL)), max_size=2_000),
    st.sampled_from([DIRECT, PAID]),
)
def test_a_round_is_in_order_and_takes_what_it_is_to_take(
    entries: list[tuple[int, int]], settings: LogSettings
) -> None:
    them = rounds(settings)
    waiting: dict[int, list[int]] = {}
    for stream, length in entries:
        them.added(stream, length)
        if length < SMALL:
            waiting.setdefault(stream, []).append(length)
        ripe = [each for each in waiting.values() if len(each) >= RECENT_RUNS * FAN_IN]
        streams = them.next()
        assert streams == sorted(set(streams))
        taken = [waiting.pop(stream) for stream in streams]
        if settings is DIRECT:
            assert len(taken) == len(ripe)
            continue
        due = sum(map(sum, ripe)) >= OBJECT or any(
            len(each) >= OVERDUE_RUNS * FAN_IN for each in ripe
        )
        assert bool(taken) == due
        assert all(len(each) >= TAKEN_ALONG_RUNS * FAN_IN for each in taken)
        if due:
            assert all(len(each) < TAKEN_ALONG_RUNS * FAN_IN for each in waiting.values())
