"""Housekeeping goes on around what cannot be served, and planning sees the newest entries."""

import asyncio

import pytest

from headwater.engine import Read
from headwater.errors import KafkaStorageError, StoreUnavailable, UnknownTopicOrPartition
from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.merge import merger
from headwater.log.read import piece_loader
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import prefix_end
from headwater.meta.values import decode
from tests.support.log.harness import append, make_batch, memory_stores, read_all, running_engine
from tests.support.log.interrupted import InterruptedStore, Interruption
from tests.support.simulation.loop import on_simulated_time

OLD = 1_000_000


@on_simulated_time
async def test_one_stream_that_fails_does_not_keep_the_others_from_retention() -> None:
    meta, objects = memory_stores()
    interruption = Interruption()
    async with running_engine(
        InterruptedStore(meta, interruption), objects, housekeeping=False
    ) as engine:
        for name in ("a", "b", "c"):
            await engine.topics.create(name, 1, {"retention.ms": "1000"})
            await append(engine, name, [make_batch(timestamp=OLD)])
        # The first call of a sweep lists the topics, the second one is the first stream's.
        interruption.strike(range(1, 2), StoreUnavailable("down"))
        await engine._maintenance.sweep()
        starts = [
            (await engine.offsets(await engine.topics.find(name), 0)).log_start
            for name in ("a", "b", "c")
        ]
        assert starts == [0, 1, 1]


@on_simulated_time
async def test_a_chunk_that_cannot_be_read_is_left_out_of_a_merge() -> None:
    meta, objects = memory_stores()
    settings = LogSettings(inline_bytes=0, object_bytes=1, merge_fan_in=2)
    async with running_engine(meta, objects, settings=settings, housekeeping=False) as engine:
        broken = await engine.topics.create("broken", 1, {})
        fine = await engine.topics.create("fine", 1, {})
        for number in range(4):
            await append(engine, "broken", [make_batch(b"%d" % number)])
            await append(engine, "fine", [make_batch(b"%d" % number)])
    (entry, *_) = await entries_of(meta, broken.streams[0])
    data, created = objects._objects[entry.key]
    objects._objects[entry.key] = (bytes(len(data)), created)
    async with running_engine(
        meta, objects, broker_id=2, settings=settings, housekeeping=False
    ) as fresh:
        again = await fresh._current.merger.merge([*broken.streams, *fine.streams])
        assert again == list(fine.streams)
        merged = await entries_of(meta, fine.streams[0])
        assert [(entry.start, entry.end) for entry in merged] == [(0, 4)]
        assert len(await entries_of(meta, broken.streams[0])) == 4
        assert await read_all(fresh, "fine") == [(n, b"%d" % n) for n in range(4)]


async def entries_of(meta: MemoryStore, stream: int) -> list[IndexEntry]:
    prefix = keys.index(0, stream)
    found = await meta.scan(prefix, prefix_end(prefix))
    return [decode(IndexEntry, entry.value) for entry in found.entries]


@on_simulated_time
async def test_small_entries_behind_many_large_ones_are_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merger, "PLAN_ENTRIES", 40)
    meta, objects = memory_stores()
    settings = LogSettings(merge_fan_in=4, merge_small_bytes=200, merge_age_ms=0)
    async with running_engine(meta, objects, settings=settings, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        for _ in range(50):
            await append(engine, "t", [make_batch(b"x" * 200)])
        for _ in range(20):
            await append(engine, "t", [make_batch(b"x")])
        before = await read_all(engine, "t")
        await engine._maintenance.merge_recent()
        assert len(await entries_of(meta, topic.streams[0])) < 60
        assert await read_all(engine, "t") == before


@pytest.mark.parametrize("count", [1, 5, 32, 33, 64, 100])
@on_simulated_time
async def test_the_newest_entries_are_found_in_order_and_without_data(count: int) -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        for _ in range(70):
            await append(engine, "t", [make_batch()])
        newest = await engine._reads.index.newest(topic.streams[0], 10, count)
        first = max(10, 70 - count)
        assert [entry.start for entry in newest] == list(range(first, 70))
        assert all(entry.data is None for entry in newest)


@on_simulated_time
async def test_records_of_a_deleted_topic_cannot_be_deleted() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch()])
        await engine.topics.delete("t")
        with pytest.raises(UnknownTopicOrPartition):
            await engine.delete_records(topic, 0, 1)
        assert engine._streams.get(topic.streams[0]) is None


@on_simulated_time
async def test_block_indexes_dropped_meanwhile_do_not_fail_a_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(piece_loader, "EXTENT_LISTS", 1)
    meta, objects = memory_stores()
    settings = LogSettings(inline_bytes=0, read_bytes=70_000)
    async with running_engine(meta, objects, settings=settings, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 8, {})
        for partition in range(8):
            batches = [make_batch(b"%d" % partition + b"x" * 40_000) for _ in range(6)]
            await append(engine, "t", batches, partition)
    async with running_engine(
        meta, objects, broker_id=2, settings=settings, housekeeping=False
    ) as fresh:
        reads = [fresh.read(topic, partition, 0, 10, committed=False) for partition in range(8)]
        for read in await asyncio.gather(*(read for read in reads if not isinstance(read, Read))):
            assert read.size > 40_000


@on_simulated_time
async def test_an_entry_whose_object_is_gone_is_an_error_and_not_the_end() -> None:
    meta, objects = memory_stores()
    settings = LogSettings(inline_bytes=0, cache_bytes=0)
    async with running_engine(meta, objects, settings=settings, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch()])
    objects._objects.clear()
    async with running_engine(
        meta, objects, broker_id=2, settings=settings, housekeeping=False
    ) as fresh:
        answer = fresh.read(topic, 0, 0, 10, committed=False)
        assert not isinstance(answer, Read)
        with pytest.raises(KafkaStorageError):
            await answer
        assert (await fresh.offsets(topic, 0)).high_watermark == 1
