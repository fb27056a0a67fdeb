"""When streams are merged, and which of them together."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.merge.rounds import ROUND_OBJECTS, MergeRounds
from headwater.log.settings import LogSettings
from tests.support.log.harness import ClockByHand

FAN_IN = 8
SMALL = 1_000
OBJECT = 10_000
AGE_MS = 5_000
SETTINGS = LogSettings(
    merge_fan_in=FAN_IN, merge_small_bytes=SMALL, merge_bytes=OBJECT, merge_age_ms=AGE_MS
)


class Scene:
    """Rounds of a broker, and its clock."""

    def __init__(self, share: int | None = None) -> None:
        self.clock = ClockByHand()
        self.rounds = MergeRounds(
            SETTINGS, lambda stream: share is None or stream % 2 == share, self.clock
        )

    def fill(self, streams: range, entries: int, length: int) -> None:
        for _ in range(entries):
            for stream in streams:
                self.rounds.added(stream, length)

    def first_round(self) -> None:
        """Have a round, so that the next one has to wait."""
        self.fill(range(1_000, 1_001), FAN_IN, 1)
        assert self.rounds.next() == [1_000]


def test_a_stream_takes_part_if_a_merge_has_enough_entries() -> None:
    scene = Scene()
    scene.fill(range(1, 4), FAN_IN - 1, 10)
    assert scene.rounds.next() == []
    scene.rounds.added(2, 10)
    assert scene.rounds.next() == [2]
    assert scene.rounds.next() == []


def test_large_entries_do_not_count() -> None:
    scene = Scene()
    scene.fill(range(1, 2), FAN_IN, SMALL)
    assert scene.rounds.next() == []


def test_a_round_begins_some_time_after_the_last_one() -> None:
    scene = Scene()
    scene.first_round()
    scene.fill(range(1, 4), FAN_IN, 10)
    scene.clock.now += AGE_MS - 1
    assert scene.rounds.next() == []
    scene.fill(range(4, 5), FAN_IN, 10)
    scene.clock.now += 1
    assert scene.rounds.next() == [1, 2, 3, 4]
    scene.fill(range(1, 4), FAN_IN, 10)
    assert scene.rounds.next() == []


def test_many_bytes_do_not_wait() -> None:
    scene = Scene()
    scene.first_round()
    streams = ROUND_OBJECTS * OBJECT // (FAN_IN * 500)
    scene.fill(range(1, streams), FAN_IN, 500)
    assert scene.rounds.next() == []
    scene.fill(range(streams, streams + 1), FAN_IN, 500)
    assert scene.rounds.next() == list(range(1, streams + 1))


def test_a_clock_that_was_set_back_delays_no_round() -> None:
    scene = Scene()
    scene.first_round()
    scene.clock.now -= 3_600_000
    scene.fill(range(1, 2), FAN_IN, 10)
    assert scene.rounds.next() == [1]


def test_another_brokers_streams_are_left_to_it_and_not_remembered() -> None:
    scene = Scene(share=0)
    scene.fill(range(1, 6), FAN_IN, 10)
    scene.rounds.forget([4])
    assert scene.rounds.next() == [2]
    assert scene.rounds.foreign() == [1, 3, 5]
    assert scene.rounds.foreign() == []
    assert not scene.rounds._small


def test_another_brokers_streams_begin_no_round() -> None:
    scene = Scene(share=0)
    scene.fill(range(2, 3), FAN_IN, 10)
    assert scene.rounds.next() == [2]
    scene.fill(range(1, 2), ROUND_OBJECTS * OBJECT // 500, 500)
    scene.fill(range(2, 3), FAN_IN, 10)
    assert scene.rounds.next() == []


def test_what_has_more_to_merge_is_in_the_next_round() -> None:
    scene = Scene()
    scene.fill(range(1, 3), FAN_IN, 10)
    assert scene.rounds.next() == [1, 2]
    scene.rounds.keep([2])
    assert scene.rounds.next() == [2]


def test_what_is_left_of_a_stream_counts_with_what_comes() -> None:
    scene = Scene()
    scene.fill(range(1, 4), FAN_IN, 200)
    assert scene.rounds.next() == [1, 2, 3]
    scene.fill(range(1, 4), 1, 200)  # is seen by the plan as well
    for stream in (1, 2, 3):
        scene.rounds.found(stream, FAN_IN + 1, 1_800)
    scene.fill(range(1, 4), 1, 200)  # is not
    for stream in (1, 2, 3):
        scene.rounds.taken(stream, 3, 600)
    scene.clock.now += AGE_MS
    assert scene.rounds.next() == []
    scene.rounds.added(3, 200)
    scene.rounds.added(2, 200)
    assert scene.rounds.next() == [2, 3]


def test_what_is_forgotten_meanwhile_does_not_come_back() -> None:
    scene = Scene()
    scene.fill(range(1, 2), FAN_IN, 10)
    scene.rounds.forget([1])
    scene.rounds.taken(1, 1, 10)
    assert not scene.rounds._small


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 2 * SMALL), st.integers(0, 100)),
        max_size=2_000,
    )
)
def test_a_round_is_in_order_and_takes_what_it_is_to_take(
    entries: list[tuple[int, int, int]],
) -> None:
    scene = Scene()
    waiting: dict[int, list[int]] = {}
    next_ms = 0
    for stream, length, passed_ms in entries:
        scene.clock.now += passed_ms
        scene.rounds.added(stream, length)
        if length < SMALL:
            waiting.setdefault(stream, []).append(length)
        enough = sorted(stream for stream, each in waiting.items() if len(each) >= FAN_IN)
        due = scene.clock.now >= next_ms
        streams = scene.rounds.next()
        assert streams == (enough if due else [])
        if streams:
            next_ms = scene.clock.now + AGE_MS
        waiting = {stream: each for stream, each in waiting.items() if stream not in streams}
