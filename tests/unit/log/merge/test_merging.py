"""Brokers that merge: what is read and written for it, who does it, and what keeps it from it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from headwater.clock import SystemClock
from headwater.errors import StoreUnavailable, UnknownFormat
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.merge.merger import READ_OBJECTS
from headwater.log.merge.plans import MergePlan
from headwater.log.settings import LogSettings
from headwater.meta.memory import MemoryStore
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import (
    ClockByHand,
    WholeObjects,
    append,
    make_batch,
    poll,
    read_all,
    running_engine,
)

FAN_IN = 4
DIRECT = LogSettings(merge_fan_in=FAN_IN, inline_bytes=0, merge_age_ms=0)
PAID = LogSettings(
    flush_interval_ms=1, inline_bytes=0, cache_bytes=1, merge_fan_in=FAN_IN,
    merge_small_bytes=2_000, merge_bytes=20_000, merge_age_ms=0,
)  # fmt: skip
NARROW = replace(PAID, merge_bytes=4_000, sweep_interval_ms=1)
"""One stream in an object; and nothing is too young for a sweep."""


@pytest.fixture
async def meta() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    yield store
    await store.close()


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects(clock=SystemClock())


async def fill(engine: LogEngine, streams: int, flushes: int, *, size: int = 250) -> list[int]:
    """Flushes of one batch to each partition of a new topic; its streams."""
    topic = await engine.topics.create("t", streams, {"retention.ms": "-1"})
    for number in range(flushes):
        batch = make_batch(b"%d " % number + b"x" * size)
        sent = [engine.append(topic, partition, [batch]) for partition in range(streams)]
        for one in sent:
            await one
    return list(topic.streams)


async def lengths(engine: LogEngine, stream: int) -> list[int]:
    return [entry.length for entry in await engine._reads.index.newest(stream, 0, 10_000)]


async def records(engine: LogEngine, streams: int) -> list[list[tuple[int, bytes]]]:
    return [await read_all(engine, "t", partition) for partition in range(streams)]


async def test_a_merge_on_a_paid_store_reads_neighbours_together_and_leaves_the_newest(
    meta: MemoryStore,
) -> None:
    objects = WholeObjects(clock=SystemClock())
    streams, flushes = 8, 36
    async with running_engine(meta, objects, settings=PAID, housekeeping=False) as engine:
        numbers = await fill(engine, streams, flushes)
        before = await records(engine, streams)
        gets, puts = objects.traffic.gets, objects.traffic.puts
        await engine._maintenance.merge_recent()
        found = [await lengths(engine, stream) for stream in numbers]
        for merged in found:
            small = [length for length in merged if length < 2_000]
            assert merged[-len(small) :] == small
            assert 4 <= len(small) < 4 * FAN_IN
            assert len(merged) - len(small) <= 5
        # One read of each flush's object for all the streams, not one for each.
        assert objects.traffic.gets - gets <= flushes
        assert objects.traffic.puts - puts <= 4
        assert await records(engine, streams) == before
    async with running_engine(meta, objects, broker_id=2, settings=PAID) as fresh:
        assert await records(fresh, streams) == before


async def test_streams_of_different_rates_are_read_together(meta: MemoryStore) -> None:
    objects = WholeObjects(clock=SystemClock())
    streams, flushes, flushes_per_round = 8, 120, 16
    settings, clock = replace(PAID, merge_age_ms=flushes_per_round), ClockByHand()
    async with running_engine(
        meta, objects, settings=settings, clock=clock, housekeeping=False
    ) as engine:
        topic = await engine.topics.create("t", streams, {"retention.ms": "-1"})
        gets = 0
        for _ in range(flushes):
            sent = [
                engine.append(topic, partition, [make_batch(b"x" * 40 * (1 + partition))])
                for partition in range(streams)
            ]
            for one in sent:
                await one
            before = objects.traffic.gets
            clock.now += 1
            await engine._maintenance.merge_recent()
            gets += objects.traffic.gets - before
        found = [await lengths(engine, stream) for stream in topic.streams]
        assert max(map(len, found)) < 3 * flushes_per_round
        assert all(length < 400 for each in found for length in each[-4:])
        # An object of a flush is read once or twice, not once for each stream.
        assert flushes / 2 < gets < 2 * flushes


async def test_few_streams_are_merged_to_entries_that_fill_an_object(meta: MemoryStore) -> None:
    objects = WholeObjects(clock=SystemClock())
    async with running_engine(meta, objects, settings=PAID, housekeeping=False) as engine:
        (stream,) = await fill(engine, 1, 70)
        puts = objects.traffic.puts
        await engine._maintenance.merge_recent()
        assert max(await lengths(engine, stream)) > 18_000
        assert objects.traffic.puts == puts + 1


@pytest.mark.parametrize("settings", [DIRECT, PAID], ids=["direct", "paid"])
async def test_a_crowded_metadata_store_is_relieved_object_by_object(
    meta: MemoryStore, monkeypatch: pytest.MonkeyPatch, settings: LogSettings
) -> None:
    inline = replace(settings, inline_bytes=100_000, merge_bytes=2_000)
    objects = WholeObjects(clock=SystemClock())
    async with running_engine(meta, objects, settings=inline, housekeeping=False) as engine:
        numbers = await fill(engine, 30, 1)
        planned: list[int] = []
        plan = engine._current.merger._plan

        async def counted(stream: int, *args: Any, **how: Any) -> MergePlan:
            planned.append(stream)
            return await plan(stream, *args, **how)

        monkeypatch.setattr(engine._current.merger, "_plan", counted)
        puts = objects.traffic.puts
        monkeypatch.setattr(engine._current.merger._budget, "crowded", lambda: False)
        await engine._current.merger.merge(numbers, relieve=True)
        assert objects.traffic.puts == puts + 1
        assert len(planned) < 12


async def test_what_comes_while_a_merge_fails_is_counted(
    meta: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = WholeObjects(clock=SystemClock())
    async with running_engine(meta, objects, settings=PAID, housekeeping=False) as engine:
        (stream,) = await fill(engine, 1, 70)

        async def failing(*_: object) -> None:
            engine._maintenance.added_entry(stream, 300)
            raise StoreUnavailable("full")

        monkeypatch.setattr(objects, "put", failing)
        await engine._maintenance.merge_recent()
        small = engine._maintenance._rounds._small[stream]
        assert (small.entries, small.size) == (1, 300)


async def test_streams_that_become_due_do_not_wait_for_streams_with_more_to_merge(
    meta: MemoryStore, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_engine(meta, objects, settings=DIRECT, housekeeping=False) as engine:
        first, second = await fill(engine, 2, 1)
        rounds = engine._maintenance._rounds
        seen: list[list[int]] = []

        async def merge(streams: list[int], **_: object) -> list[int]:
            seen.append(streams)
            if len(seen) == 1:
                for _number in range(4 * FAN_IN):
                    rounds.added(second, 10)
            return [first] if len(seen) < 3 else []

        monkeypatch.setattr(engine._current.merger, "merge", merge)
        for _ in range(4 * FAN_IN):
            rounds.added(first, 10)
        await engine._maintenance.merge_recent()
        assert seen == [[first], [first, second], [first]]


async def test_what_another_broker_wrote_is_merged_by_the_one_whose_share_it_is(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with (
        running_engine(
            meta, objects, settings=DIRECT, housekeeping=False, share=lambda _: False
        ) as writing,
        running_engine(meta, objects, broker_id=2, settings=DIRECT) as merging,
    ):
        (stream,) = await fill(writing, 1, 16)
        await poll(merging, "t", 0, 15)
        await writing._maintenance.merge_recent()
        assert len(await lengths(writing, stream)) == 16
        await merging._maintenance.merge_recent()
        assert len(await lengths(writing, stream)) == 1
        assert len(await read_all(writing, "t")) == 16


async def test_the_inline_bytes_of_anothers_streams_are_counted_again(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    settings = LogSettings(merge_fan_in=FAN_IN, merge_age_ms=0)
    async with (
        running_engine(
            meta, objects, settings=settings, housekeeping=False, share=lambda _: False
        ) as writing,
        running_engine(meta, objects, broker_id=2, settings=settings) as merging,
    ):
        await fill(writing, 1, 16)
        assert writing._upkeep.budget.used > 4_000
        await poll(merging, "t", 0, 15)
        await merging._maintenance.merge_recent()
        await writing._maintenance.merge_recent()
        assert writing._upkeep.budget.used == 0


@pytest.mark.parametrize("whole", [False, True], ids=["range", "object"])
async def test_what_cannot_be_read_keeps_no_other_stream_from_being_merged(
    meta: MemoryStore, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    objects = WholeObjects(clock=SystemClock())
    async with running_engine(meta, objects, settings=NARROW, housekeeping=False) as engine:
        numbers = await fill(engine, 12, 20)
        before = await records(engine, 12)
        bad, *_ = await engine._reads.index.newest(numbers[0], 0, 100)
        get_range = objects.get_range

        async def failing(key: str, start: int, length: int) -> bytearray:
            if key == bad.key and (whole or start == bad.position):
                raise StoreUnavailable("a bad sector")
            return await get_range(key, start, length)

        monkeypatch.setattr(objects, "get_range", failing)
        await engine._maintenance.merge_recent()
        found = [len(await lengths(engine, stream)) for stream in numbers]
        assert found[:READ_OBJECTS] == [20] * READ_OBJECTS  # they are read together
        if whole:
            assert found == [20] * 12  # all have a chunk in it
        else:
            assert max(found[2 * READ_OBJECTS :]) < 20
        monkeypatch.setattr(objects, "get_range", get_range)
        await engine._maintenance.sweep()
        assert max([len(await lengths(engine, stream)) for stream in numbers]) < 20
        assert await records(engine, 12) == before


async def test_a_stream_that_cannot_be_planned_keeps_no_other_from_being_merged(
    meta: MemoryStore, objects: MemoryObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_engine(meta, objects, settings=DIRECT, housekeeping=False) as engine:
        numbers = await fill(engine, 3, 16)
        newest = engine._reads.index.newest

        async def failing(stream: int, *args: Any) -> list[IndexEntry]:
            if stream == numbers[1]:
                raise UnknownFormat("of a newer release")
            return await newest(stream, *args)

        monkeypatch.setattr(engine._reads.index, "newest", failing)
        await engine._maintenance.merge_recent()
        monkeypatch.setattr(engine._reads.index, "newest", newest)
        assert [len(await lengths(engine, stream)) for stream in numbers] == [1, 16, 1]


async def test_where_the_store_answers_nothing_the_round_fails(
    meta: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = WholeObjects(clock=SystemClock())
    async with running_engine(meta, objects, settings=NARROW, housekeeping=False) as engine:
        numbers = await fill(engine, 24, 36)

        async def failing(key: str, start: int, length: int) -> bytearray:
            raise StoreUnavailable("away")

        monkeypatch.setattr(objects, "get_range", failing)
        with pytest.raises(StoreUnavailable, match="away"):
            await engine._maintenance.merge_recent()
        assert {len(await lengths(engine, stream)) for stream in numbers} == {36}


async def test_inline_bytes_behind_many_large_entries_are_not_forgotten(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    settings = LogSettings(merge_fan_in=FAN_IN, inline_bytes=1_000, merge_small_bytes=2_000)
    async with running_engine(meta, objects, settings=settings, housekeeping=False) as engine:
        (stream,) = await fill(engine, 1, 3)
        inline = engine._upkeep.budget.used
        assert inline > 700
        for _ in range(70):
            await append(engine, "t", [make_batch(b"x" * 3_000)])
        await engine._current.merger.merge([stream])
        assert engine._upkeep.budget.used == inline
