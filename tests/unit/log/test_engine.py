"""The engine on memory stores: append, read, trim, merge, delete, collect."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.errors import (
    InvalidProducerEpoch,
    KafkaStorageError,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from headwater.log.read.piece_loader import IDLE_CACHE_BYTES
from headwater.log.reclaim.orphans import fence
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import prefix_end
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import (
    WholeObjects,
    append,
    make_batch,
    payloads,
    poll,
    read_all,
    read_once,
    running_engine,
)
from tests.support.simulation.loop import on_simulated_time

SMALL = LogSettings(inline_bytes=0)


@pytest.fixture
async def meta() -> AsyncIterator[MemoryStore]:
    store = MemoryStore()
    yield store
    await store.close()


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects(clock=SystemClock())


@on_simulated_time
async def test_offsets_are_dense_and_records_come_back(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with running_engine(meta, objects) as engine:
        await engine.topics.create("t", 2, {})
        assert await append(engine, "t", [make_batch(b"a", count=3)]) == 0
        assert await append(engine, "t", [make_batch(b"b"), make_batch(b"c")]) == 3
        assert await append(engine, "t", [make_batch(b"d")], partition=1) == 0
        assert await read_all(engine, "t") == [(0, b"a"), (3, b"b"), (4, b"c")]
        assert await read_all(engine, "t", 1) == [(0, b"d")]


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
@on_simulated_time
async def test_another_broker_reads_what_was_acknowledged(
    meta: MemoryStore, objects: MemoryObjects, inline_bytes: int
) -> None:
    settings = LogSettings(inline_bytes=inline_bytes)
    async with (
        running_engine(meta, objects, settings=settings) as one,
        running_engine(meta, objects, broker_id=2, settings=settings) as two,
    ):
        await one.topics.create("t", 1, {})
        for number in range(20):
            base = await append(one if number % 2 else two, "t", [make_batch(b"%d" % number)])
            assert base == number
            for engine in (one, two):
                read = await poll(engine, "t", 0, number)
                assert payloads(read) == [(number, b"%d" % number)]


@on_simulated_time
async def test_appends_of_one_turn_share_a_flush_and_keep_their_order(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with running_engine(meta, objects, settings=SMALL) as engine:
        topic = await engine.topics.create("t", 1, {})
        futures = [engine.append(topic, 0, [make_batch(b"%d" % n)]) for n in range(50)]
        results = await asyncio.gather(*futures)
        assert [result.base_offset for result in results] == list(range(50))
        assert objects.traffic.puts == 1


@on_simulated_time
async def test_a_read_in_the_middle_of_a_batch_returns_the_whole_batch(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with running_engine(meta, objects) as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a", count=10)])
        assert payloads(await read_once(engine, "t", 0, 7)) == [(0, b"a")]


@on_simulated_time
async def test_max_bytes_limits_whole_batches_but_gives_at_least_one(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with running_engine(meta, objects) as engine:
        await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"x" * 100) for _ in range(10)])
        assert len(payloads(await read_once(engine, "t", 0, 0, 1))) == 1
        assert len(payloads(await read_once(engine, "t", 0, 0, 161 * 3))) == 3
        assert len(payloads(await read_once(engine, "t", 0, 0, 161 * 3 + 160))) == 3


@on_simulated_time
async def test_offsets_outside_of_the_log_are_out_of_range(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with running_engine(meta, objects) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(count=10)])
        assert (await read_once(engine, "t", 0, 10)).parts == []
        with pytest.raises(OffsetOutOfRange):
            await read_once(engine, "t", 0, 11)
        assert await engine.delete_records(topic, 0, 5) == 5
        with pytest.raises(OffsetOutOfRange):
            await read_once(engine, "t", 0, 4)
        with pytest.raises(OffsetOutOfRange):
            await engine.delete_records(topic, 0, 11)
        assert await engine.delete_records(topic, 0, -1) == 10


@on_simulated_time
async def test_a_long_poll_is_woken_by_another_brokers_commit(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with (
        running_engine(meta, objects) as one,
        running_engine(meta, objects, broker_id=2) as two,
    ):
        topic = await one.topics.create("t", 1, {})
        read = await read_once(two, "t", 0, 0)
        assert read.parts == []
        waiter = two.waiter({topic.streams[0]: read.offsets})
        await append(one, "t", [make_batch()])
        assert await waiter.wait(5)
        waiter.close()
        assert payloads(await read_once(two, "t", 0, 0)) == [(0, b"x")]


@on_simulated_time
async def test_retry_through_another_broker_gets_the_first_offset(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with (
        running_engine(meta, objects) as one,
        running_engine(meta, objects, broker_id=2) as two,
    ):
        await one.topics.create("t", 1, {})
        first = make_batch(b"a", count=5, producer_id=7, epoch=0, sequence=0)
        second = make_batch(b"b", count=2, producer_id=7, epoch=0, sequence=5)
        assert await append(one, "t", [first]) == 0
        assert await append(two, "t", [second]) == 5
        assert await append(two, "t", [first]) == 0
        assert await append(one, "t", [second]) == 5
        assert await read_all(one, "t") == [(0, b"a"), (5, b"b")]
        with pytest.raises(KafkaStorageError, match="an earlier batch is missing"):
            await append(one, "t", [make_batch(producer_id=7, epoch=0, sequence=9)])
        assert await append(one, "t", [make_batch(b"c", producer_id=7, epoch=1, sequence=0)]) == 7
        with pytest.raises(InvalidProducerEpoch):
            await append(two, "t", [make_batch(producer_id=7, epoch=0, sequence=7)])


@on_simulated_time
async def test_a_duplicate_inside_a_flush_is_left_out_of_the_chunk(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    async with running_engine(meta, objects, settings=SMALL) as engine:
        topic = await engine.topics.create("t", 1, {})
        twice = make_batch(b"twice", count=2, producer_id=3, epoch=0, sequence=0)
        futures = [
            engine.append(topic, 0, [batch])
            for batch in (make_batch(b"a"), twice, twice, make_batch(b"b"))
        ]
        results = await asyncio.gather(*futures)
        assert [result.base_offset for result in results] == [0, 1, 1, 3]
        expected = [(0, b"a"), (1, b"twice"), (3, b"b")]
        assert await read_all(engine, "t") == expected
        async with running_engine(meta, objects, broker_id=2) as other:
            assert await read_all(other, "t") == expected


@on_simulated_time
async def test_a_deleted_topic_refuses_appends_in_flight_and_leaves_nothing(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    settings = LogSettings(inline_bytes=0, gc_grace_ms=0)
    async with running_engine(meta, objects, settings=settings) as engine:
        old = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"old")])
        await engine.topics.delete("t")
        with pytest.raises(UnknownTopicOrPartition):
            await engine.append(old, 0, [make_batch()])
        with pytest.raises(UnknownTopicOrPartition):
            await engine.topics.find("t")
        await engine.topics.create("t", 1, {})
        assert await append(engine, "t", [make_batch(b"new")]) == 0
        assert await read_all(engine, "t") == [(0, b"new")]
        await engine._maintenance.collect()
        index = keys.index(0, old.streams[0])
        assert not (await meta.scan(index, prefix_end(index))).entries
        assert len([info async for info in objects.list("wal/")]) == 1


@on_simulated_time
async def test_a_topic_can_be_created_once(meta: MemoryStore, objects: MemoryObjects) -> None:
    async with (
        running_engine(meta, objects) as one,
        running_engine(meta, objects, broker_id=2) as two,
    ):
        topic = await one.topics.create("t", 3, {"retention.ms": "5"})
        with pytest.raises(TopicAlreadyExists):
            await two.topics.create("t", 3, {})
        assert await two.topics.find_by_id(topic.id) == topic
        grown = await two.topics.add_partitions("t", 5)
        assert grown.streams[:3] == topic.streams
        assert len(set(grown.streams)) == 5


@on_simulated_time
async def test_merging_keeps_every_record_and_shrinks_the_index(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    settings = LogSettings(merge_fan_in=4, gc_grace_ms=0, inline_bytes=200)
    rng = Random(5)
    async with (
        running_engine(meta, objects, settings=settings, housekeeping=False) as engine,
        running_engine(meta, objects, broker_id=2, settings=settings) as reader,
    ):
        topic = await engine.topics.create("t", 3, {})
        for number in range(150):
            size = rng.choice([1, 50, 500, 5000])
            batches = [make_batch(b"%d " % number + b"x" * size, count=rng.randint(1, 5))]
            await append(engine, "t", batches, number % 3)
        before = [await read_all(engine, "t", p) for p in range(3)]
        assert [await read_all(reader, "t", p) for p in range(3)] == before
        await engine._maintenance.merge_recent()
        prefix = "d/0000/index/"
        entries = (await meta.scan(prefix, prefix_end(prefix))).entries
        assert len(entries) < 40
        assert [await read_all(engine, "t", p) for p in range(3)] == before
        assert [await read_all(reader, "t", p) for p in range(3)] == before
        await engine._maintenance.collect()
        assert [await read_all(reader, "t", p) for p in range(3)] == before
        async with running_engine(meta, objects, broker_id=3) as fresh:
            assert [await read_all(fresh, "t", p) for p in range(3)] == before
        assert topic.streams


@on_simulated_time
async def test_large_chunks_are_read_in_pieces(meta: MemoryStore, objects: MemoryObjects) -> None:
    settings = LogSettings(read_bytes=100_000)
    async with running_engine(meta, objects, settings=settings) as engine:
        topic = await engine.topics.create("t", 1, {})
        futures = [
            engine.append(topic, 0, [make_batch(b"%04d" % n + b"x" * 10_000, count=2)])
            for n in range(100)
        ]
        await asyncio.gather(*futures)
        expected = await read_all(engine, "t")
    async with running_engine(meta, objects, broker_id=2, settings=settings) as fresh:
        assert await read_all(fresh, "t", max_bytes=35_000) == expected
        assert fresh._context.objects.traffic.bytes_read < 1_300_000
        read = await read_once(fresh, "t", 0, 101, 1)
        assert payloads(read)[0][1][:4] == b"0050"


@on_simulated_time
async def test_retention_by_size_and_time_moves_log_start(
    meta: MemoryStore, objects: MemoryObjects
) -> None:
    now = SystemClock().now_ms()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        await engine.topics.create("old", 1, {"retention.ms": "60000"})
        for age in (300_000, 200_000, 10_000, 100_000):
            await append(engine, "old", [make_batch(timestamp=now - age)])
        await engine.topics.create("big", 1, {"retention.bytes": "300"})
        for _ in range(10):
            await append(engine, "big", [make_batch(b"x" * 39, timestamp=now)])
        await engine._maintenance.sweep()
        old = await engine.offsets(await engine.topics.find("old"), 0)
        assert (old.log_start, old.high_watermark) == (2, 4)
        big = await engine.offsets(await engine.topics.find("big"), 0)
        assert (big.log_start, big.high_watermark) == (7, 10)


@on_simulated_time
async def test_a_fenced_broker_takes_a_new_name_and_its_orphans_go(meta: MemoryStore) -> None:
    objects = WholeObjects(clock=SystemClock())
    settings = LogSettings(inline_bytes=0, orphan_grace_ms=0, gc_grace_ms=0)
    async with running_engine(meta, objects, settings=settings) as engine:
        topic = await engine.topics.create("t", 1, {})
        await append(engine, "t", [make_batch(b"a")])
        old = engine.incarnation
        await fence(meta, old)
        with pytest.raises(Exception, match="fenced"):
            await engine.append(topic, 0, [make_batch(b"lost")])
        while engine.incarnation == old:
            await asyncio.sleep(0.01)
        assert await append(engine, "t", [make_batch(b"b")]) == 1
        assert len([info async for info in objects.list("wal/")]) == 3
        await engine._maintenance.collect()
        assert len([info async for info in objects.list("wal/")]) == 2
        assert await read_all(engine, "t") == [(0, b"a"), (1, b"b")]


@on_simulated_time
async def test_released_memory_is_read_again(meta: MemoryStore, objects: MemoryObjects) -> None:
    async with running_engine(meta, objects, housekeeping=False) as engine:
        await engine.topics.create("t", 1, {})
        payloads = [b"%d" % number * 1_000_000 for number in range(10)]
        for payload in payloads:
            await append(engine, "t", [make_batch(payload * 2)])
        before = engine._loader._cache.size
        await engine.release_memory()
        assert engine._loader._cache.size <= IDLE_CACHE_BYTES < before
        found = await read_all(engine, "t", max_bytes=10 << 20)
        assert [data for _, data in found] == [payload * 2 for payload in payloads]
