"""Plans of many streams: in step, in parts that are read together, in objects of one size."""

from dataclasses import replace as replace_dataclass
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from headwater.log.formats.metadata_values import WAL, IndexEntry
from headwater.log.merge.plans import (
    MAX_OVERSIZE,
    MergePlan,
    divide_by_object,
    divide_by_read,
    extend_backwards,
    in_step,
)
from headwater.log.merge.rank import plan_merge, worth_while
from headwater.log.read.ranged_reads import plan_reads

FAN_IN = 4
SMALL, OBJECT = 1_000, 5_000
LIMITS = {"by_ms": 1_000, "fan_in": FAN_IN, "max_bytes": OBJECT, "max_entries": 64}


def entry(start: int, length: int, flush: int) -> IndexEntry:
    return IndexEntry(
        start=start, end=start + 1, kind=WAL, length=length, size=0, max_timestamp=0,
        created_ms=flush, key=f"{flush:04d}",
    )  # fmt: skip


def planned(stream: int, lengths: list[int], flushes: list[int] | None = None) -> MergePlan | None:
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
    return (
        MergePlan(stream, 0, run, [each for each in small if each.length < SMALL]) if run else None
    )


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
    plans: list[MergePlan] = []
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
        assert len(after.later) == len(after.small) - len(after.run)


@given(streams, st.integers(1, 20_000), st.integers(0, 40_000))
def test_parts_are_whole_ordered_and_bounded(
    fed: list[list[tuple[int, int]]], most: int, gap: int
) -> None:
    """Streams lie side by side in each flush's object, with something else between them."""
    plans: list[MergePlan] = []
    for number, some in enumerate(fed):
        if plan := planned(number, [length for length, _ in some]):
            placed = [structs.replace(each, position=number * (1_500 + gap)) for each in plan.run]
            plans.append(MergePlan(number, 0, placed))
    cut = list(divide_by_read(plans, most))
    assert [each for part in cut for each in part] == plans
    for part in cut:
        if len(part) > 1:
            assert sum(each.size for each in part) <= most
            spans = plan_reads([entry for each in part for entry in each.run])
            assert sum(span.length for span in spans) <= 2 * most


def shut_in(plan: MergePlan, before: list[int]) -> MergePlan:
    start = -len(before)
    earlier = [entry(start + number, length, 0) for number, length in enumerate(before)]
    return MergePlan(plan.stream, 0, plan.run, plan.small, earlier)


def test_what_is_right_before_a_run_goes_along_if_that_becomes_large() -> None:
    limits = {"small_bytes": SMALL, "max_bytes": OBJECT, "max_entries": 64}
    large, small = planned(1, [300] * 4), planned(2, [30] * 4)
    assert large
    assert small
    taken = extend_backwards(shut_in(large, [100] * 3), **limits)
    assert [each.start for each in taken.run] == list(range(-3, 4))
    assert extend_backwards(shut_in(small, [100] * 3), **limits).run == small.run
    # As much of it as fits, and not beyond a gap.
    assert extend_backwards(shut_in(large, [900] * 9), **limits).size <= OBJECT
    apart = shut_in(large, [100] * 3)
    apart = replace_dataclass(apart, earlier=[apart.earlier[0], apart.earlier[2]])
    assert extend_backwards(apart, **limits).run[0].start == -1
    assert len(extend_backwards(shut_in(large, [1] * 99), **limits).run) == 64


@given(st.integers(0, 2**32), st.sampled_from([0.4, 1.5]))
def test_no_small_entries_stay_between_large_ones(seed: int, spread: float) -> None:
    random = Random(seed)
    entries: list[IndexEntry] = []
    for number in range(400):
        length = min(SMALL - 1, max(1, int(60 * random.lognormvariate(0, spread))))
        entries.append(entry(number, length, number))
        if number % 8:
            continue
        run = plan_merge(
            entries, fan_in=FAN_IN, small_bytes=SMALL, max_bytes=OBJECT, enough_bytes=SMALL
        )
        if not run:
            continue
        small = [each for each in entries if each.length < SMALL]
        before = sum(1 for each in small if each.start < run[0].start)
        plan = extend_backwards(
            MergePlan(1, 0, run, small[before:], small[:before]),
            small_bytes=SMALL, max_bytes=OBJECT, max_entries=64,
        )  # fmt: skip
        at = entries.index(plan.run[0])
        merged = IndexEntry(
            start=plan.run[0].start, end=plan.run[-1].end, kind=WAL, length=plan.size, size=0,
            max_timestamp=0, created_ms=plan.run[-1].created_ms,
        )  # fmt: skip
        entries[at : at + len(plan.run)] = [merged]
    large = [number for number, each in enumerate(entries) if each.length >= SMALL]
    shut = [each for each in entries[: max(large, default=0)] if each.length < SMALL]
    assert len(shut) <= 2 * FAN_IN


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=60))
def test_objects_are_few_and_about_as_large(weights: list[float]) -> None:
    groups = list(divide_by_object(range(len(weights)), weights))
    assert [item for group in groups for item in group] == list(range(len(weights)))
    assert len(groups) <= max(1, -(-sum(weights) // MAX_OVERSIZE))
    sizes = [sum(weights[item] for item in group) for group in groups]
    assert max(sizes) <= MAX_OVERSIZE + max(weights) + 1e-9
