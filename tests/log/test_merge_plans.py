"""Plans of many streams: in step, in parts that are read together, in objects of one size."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.formats import WAL, IndexEntry
from headwater.log.merge import plan_merge, worth_while
from headwater.log.merge_plans import STRETCHED, Planned, divided, in_step, parts

FAN_IN = 4
SMALL, OBJECT = 1_000, 5_000
LIMITS = {"by_ms": 1_000, "fan_in": FAN_IN, "max_bytes": OBJECT, "max_entries": 64}


def entry(start: int, length: int, flush: int) -> IndexEntry:
    return IndexEntry(
        start=start, end=start + 1, kind=WAL, length=length, size=0, max_timestamp=0,
        created_ms=flush, key=f"{flush:04d}",
    )  # fmt: skip


def planned(stream: int, lengths: list[int], flushes: list[int] | None = None) -> Planned | None:
    """A stream with an entry in each of those flushes."""
    entries = [
        entry(start, length, flush)
        for start, (length, flush) in enumerate(
            zip(lengths, flushes or range(len(lengths)), strict=True)
        )
    ]
    run = plan_merge(
        entries, fan_in=FAN_IN, small_bytes=SMALL, max_bytes=OBJECT, enough_bytes=SMALL
    )
    small = [each for each in entries if run and each.start >= run[0].start]
    return Planned(stream, 0, run, [each for each in small if each.length < SMALL]) if run else None


def test_streams_of_different_rates_end_with_the_same_flush() -> None:
    slow, middle, fast = (planned(n, [50 * n] * 40) for n in (1, 2, 8))
    assert slow
    assert middle
    assert fast
    assert [len(each.run) for each in (slow, middle, fast)] == [20, 10, 4]
    changed = in_step([slow, middle, fast, middle, middle, middle], **LIMITS)
    assert {each.run[-1].created_ms for each in changed} == {9}


def test_no_run_is_extended_beyond_when_the_first_was_planned() -> None:
    slow, fast = planned(1, [50] * 40), planned(2, [400] * 40)
    assert slow
    assert fast
    changed = in_step([fast, slow], **{**LIMITS, "by_ms": 7})
    assert [each.run[-1].created_ms for each in changed] == [7, 7]


def test_what_would_not_be_worth_while_stays_as_it_is() -> None:
    often = planned(1, [400] * 40)
    seldom = planned(2, [400] * 40, list(range(0, 400, 10)))
    assert often
    assert seldom
    assert in_step([often] * 9 + [seldom], **LIMITS)[-1] == seldom


streams = st.lists(
    st.lists(st.tuples(st.integers(1, 1_500), st.integers(1, 3)), min_size=4, max_size=40),
    min_size=1,
    max_size=8,
)


@given(streams)
def test_a_run_in_step_is_one_that_may_be_merged(fed: list[list[tuple[int, int]]]) -> None:
    plans: list[Planned] = []
    for number, some in enumerate(fed):
        flushes, at = [], 0
        for _, pause in some:
            at += pause
            flushes.append(at)
        plan = planned(number, [length for length, _ in some], flushes)
        plans += [plan] if plan else []
    if not plans:
        return
    for before, after in zip(plans, in_step(plans, **LIMITS), strict=True):
        assert (after.stream, after.small) == (before.stream, before.small)
        assert after.run[0] == before.run[0]
        assert all(one.end == other.start for one, other in pairwise(after.run))
        assert after.size <= OBJECT
        assert all(each.length < SMALL for each in after.run)
        assert after.run == before.run or worth_while(after.run, FAN_IN)
        assert after.behind == len(after.small) - len(after.run)


@given(streams, st.integers(1, 20_000), st.integers(1, 100))
def test_parts_are_whole_ordered_and_bounded(
    fed: list[list[tuple[int, int]]], size: int, entries: int
) -> None:
    found = [planned(number, [length for length, _ in some]) for number, some in enumerate(fed)]
    plans = [each for each in found if each]
    cut = list(parts(plans, max_bytes=size, max_entries=entries))
    assert [each for part in cut for each in part] == plans
    for part in cut:
        assert len(part) == 1 or sum(each.size for each in part) <= size
        assert len(part) == 1 or sum(len(each.run) for each in part) <= entries


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=60))
def test_objects_are_few_and_about_as_large(weights: list[float]) -> None:
    groups = list(divided(range(len(weights)), weights))
    assert [item for group in groups for item in group] == list(range(len(weights)))
    assert len(groups) <= max(1, -(-sum(weights) // STRETCHED))
    sizes = [sum(weights[item] for item in group) for group in groups]
    assert max(sizes) <= STRETCHED + max(weights) + 1e-9
