"""What every storage engine must do, as tests that an engine's test class inherits.

A subclass gives the fixture ``open_engine``: each call runs an engine on the same data, which is
empty at first, and no two run at once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from headwater.engine import Offsets, Read, StorageEngine, Topic
from headwater.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidProducerEpoch,
    KafkaError,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from headwater.wire.batches.batch import Batch, split_batches
from headwater.wire.batches.records import Record, encode_batch
from tests.support.log.harness import append, make_batch, payloads, read_all, read_once

OpenEngine = Callable[[], AbstractAsyncContextManager[StorageEngine]]


def timestamped(*timestamps: int) -> Batch:
    """A batch with a record of each timestamp."""
    records = [Record(number, time, None, b"v") for number, time in enumerate(timestamps)]
    (batch,) = split_batches(encode_batch(records))
    return batch


class StorageEngineConformance:
    @pytest.fixture
    async def engine(self, open_engine: OpenEngine) -> AsyncIterator[StorageEngine]:
        async with open_engine() as engine:
            yield engine

    @pytest.fixture
    async def topic(self, engine: StorageEngine) -> Topic:
        return await engine.topics.create("t", 2, {})

    # Topics.

    async def test_a_topic_is_found_by_name_and_id(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        assert (topic.name, len(set(topic.streams))) == ("t", 2)
        for partition in (1, 2):  # one that it lacks is the caller's to refuse
            assert await engine.topics.find("t", partition=partition) == topic
        assert await engine.topics.find_by_id(topic.id) == topic
        assert engine.topics.get("t") == engine.topics.get_by_id(topic.id) == topic
        assert list(engine.topics.names()) == list(await engine.topics.stored_names()) == ["t"]
        with pytest.raises(UnknownTopicOrPartition):
            await engine.topics.find("no")
        assert engine.topics.get("no") is None

    async def test_a_name_is_given_once(self, engine: StorageEngine, topic: Topic) -> None:
        with pytest.raises(TopicAlreadyExists):
            await engine.topics.create("t", 1, {})
        assert await engine.topics.all() == [topic]

    async def test_all_topics_are_sorted_by_name(self, engine: StorageEngine, topic: Topic) -> None:
        before = engine.topics.version
        first = await engine.topics.create("a", 1, {"retention.ms": "5"})
        assert engine.topics.version != before
        assert await engine.topics.all() == [first, topic]
        assert first.configs == {"retention.ms": "5"}

    async def test_partitions_are_added_and_keep_their_streams(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        await append(engine, "t", [make_batch(b"old")])
        grown = await engine.topics.add_partitions("t", 3)
        assert (grown.id, grown.streams[:2]) == (topic.id, topic.streams)
        assert await append(engine, "t", [make_batch(b"new")], partition=2) == 0
        assert await read_all(engine, "t") == [(0, b"old")]
        with pytest.raises(InvalidPartitions):
            await engine.topics.add_partitions("t", 3)

    async def test_configurations_change_or_stay(self, engine: StorageEngine, topic: Topic) -> None:
        changed = await engine.topics.change_configs("t", lambda old: {**old, "a": "1"})
        assert (changed.id, changed.configs) == (topic.id, {"a": "1"})

        def refuse(_configs: object) -> dict[str, str]:
            raise InvalidConfig("no")

        with pytest.raises(InvalidConfig):
            await engine.topics.change_configs("t", refuse)
        assert (await engine.topics.find("t")).configs == {"a": "1"}

    async def test_a_topic_made_again_is_another_one(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        await append(engine, "t", [make_batch(b"old")])
        assert (await engine.topics.delete("t")).id == topic.id
        with pytest.raises(UnknownTopicOrPartition):
            await engine.topics.delete("t")
        with pytest.raises(UnknownTopicOrPartition):
            await engine.append(topic, 0, [make_batch()])
        with pytest.raises(UnknownTopicId):
            await engine.topics.find_by_id(topic.id)
        again = await engine.topics.create("t", 1, {})
        assert again.id != topic.id
        assert not {*again.streams} & {*topic.streams}
        assert await append(engine, "t", [make_batch(b"new")]) == 0
        assert await read_all(engine, "t") == [(0, b"new")]

    # Append and read.

    async def test_offsets_are_dense_in_order_of_the_calls(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        futures = [
            engine.append(topic, 0, [make_batch(b"a", count=3)]),
            engine.append(topic, 0, [make_batch(b"b"), make_batch(b"c", count=2)]),
            engine.append(topic, 1, [make_batch(b"d")]),
            engine.append(topic, 0, [make_batch(b"e")]),
        ]
        landed = await asyncio.gather(*futures)
        assert [one.base_offset for one in landed] == [0, 3, 0, 6]
        assert {one.log_start for one in landed} == {0}
        assert await read_all(engine, "t") == [(0, b"a"), (3, b"b"), (4, b"c"), (6, b"e")]
        assert await read_all(engine, "t", 1) == [(0, b"d")]

    async def test_whole_batches_are_read_and_at_least_one(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        batch = make_batch(b"x" * 100, count=2)
        for _ in range(5):
            await append(engine, "t", [batch])
        size = len(batch.data)
        assert payloads(await read_once(engine, "t", 0, 3, 1)) == [(2, b"x" * 100)]
        read = await read_once(engine, "t", 0, 0, 3 * size + size - 1)
        assert [offset for offset, _ in payloads(read)] == [0, 2, 4]
        assert read.size == sum(len(part) for part in read.parts) == 3 * size
        assert read.offsets == Offsets(0, 10, 10)

    async def test_the_end_is_empty_and_beyond_it_is_out_of_range(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        assert (await read_once(engine, "t", 0, 0)).parts == []
        await append(engine, "t", [make_batch(count=3)])
        read = await read_once(engine, "t", 0, 3)
        assert (read.parts, read.size, read.offsets) == ([], 0, Offsets(0, 3, 3))
        for offset in (-1, 4):
            with pytest.raises(OffsetOutOfRange):
                await read_once(engine, "t", 0, offset)

    async def test_committed_records_are_read_by_both_isolation_levels(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        await append(engine, "t", [make_batch(b"a")])
        for committed in (False, True):
            answer = engine.read(topic, 0, 0, 1000, committed=committed)
            assert payloads(answer if isinstance(answer, Read) else await answer) == [(0, b"a")]

    async def test_a_waiter_wakes_when_its_stream_changes(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        read = await read_once(engine, "t", 0, 0)
        assert read.parts == []
        waiter = engine.waiter({topic.streams[0]: read.offsets})
        assert not await waiter.wait(0.01)
        await append(engine, "t", [make_batch()])
        assert await waiter.wait(5)
        assert not await waiter.wait(0.01)
        await append(engine, "t", [make_batch()], partition=1)
        assert not await waiter.wait(0.01)
        waiter.close()

    async def test_a_change_between_a_read_and_its_waiter_is_not_missed(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        read = await read_once(engine, "t", 0, 0)
        await append(engine, "t", [make_batch()])
        waiter = engine.waiter({topic.streams[0]: read.offsets})
        assert await waiter.wait(5)
        waiter.close()

    # Idempotent producers.

    async def test_a_retry_gets_the_first_offset(self, engine: StorageEngine, topic: Topic) -> None:
        first = make_batch(b"a", count=5, producer_id=7, epoch=0, sequence=0)
        second = make_batch(b"b", count=2, producer_id=7, epoch=0, sequence=5)
        assert [await append(engine, "t", [one]) for one in (first, second)] == [0, 5]
        assert [await append(engine, "t", [one]) for one in (first, second)] == [0, 5]
        assert await read_all(engine, "t") == [(0, b"a"), (5, b"b")]
        (producer,) = await engine.producers(topic, 0)
        assert (producer.id, producer.epoch, producer.last_sequence) == (7, 0, 6)
        assert await engine.producers(topic, 1) == []

    async def test_gaps_and_old_epochs_are_refused(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        await append(engine, "t", [make_batch(b"a", producer_id=7, epoch=1, sequence=0)])
        with pytest.raises(KafkaError):
            await append(engine, "t", [make_batch(producer_id=7, epoch=1, sequence=2)])
        with pytest.raises(InvalidProducerEpoch):
            await append(engine, "t", [make_batch(producer_id=7, epoch=0, sequence=1)])
        assert await read_all(engine, "t") == [(0, b"a")]

    async def test_what_follows_a_batch_that_was_turned_away_is_not_taken_for_the_first(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        first = make_batch(b"a", producer_id=7, epoch=0, sequence=0)
        second = make_batch(b"b", producer_id=7, epoch=0, sequence=1)
        engine.note_rejected(topic, 0, [first])
        with pytest.raises(KafkaError):
            await append(engine, "t", [second])
        assert [await append(engine, "t", [one]) for one in (first, second)] == [0, 1]

    # Bounds, times and sizes.

    async def test_bounds_follow_appends_and_deletions(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        assert await engine.offsets(topic, 0) == Offsets(0, 0, 0)
        await append(engine, "t", [make_batch(count=4)])
        await append(engine, "t", [make_batch(b"y", count=6)])
        assert await engine.delete_records(topic, 0, 4) == 4
        assert await engine.offsets(topic, 0) == Offsets(4, 10, 10)
        with pytest.raises(OffsetOutOfRange):
            await read_once(engine, "t", 0, 3)
        with pytest.raises(OffsetOutOfRange):
            await engine.delete_records(topic, 0, 11)
        assert await read_all(engine, "t") == [(4, b"y")]
        assert await engine.delete_records(topic, 0, -1) == 10
        assert await engine.end_of_epoch(topic, 0, 0) == 10

    async def test_records_are_found_by_time(self, engine: StorageEngine, topic: Topic) -> None:
        assert await engine.max_timestamp(topic, 0) is None
        await append(engine, "t", [timestamped(100, 300), timestamped(200, 300)])
        found = [await engine.offset_for_timestamp(topic, 0, time) for time in (0, 150, 301)]
        assert found == [(0, 100), (1, 300), None]
        assert await engine.max_timestamp(topic, 0) == (1, 300)

    async def test_sizes_are_those_of_the_produced_bytes(
        self, engine: StorageEngine, topic: Topic
    ) -> None:
        batch = make_batch(b"x" * 100)
        await append(engine, "t", [batch])
        await append(engine, "t", [batch])
        sizes = await engine.sizes(topic.streams)
        assert [sizes.get(stream, 0) for stream in topic.streams] == [2 * len(batch.data), 0]
        await engine.delete_records(topic, 0, -1)
        assert (await engine.sizes(topic.streams)).get(topic.streams[0], 0) == 0

    async def test_the_directory_has_a_name(self, engine: StorageEngine) -> None:
        assert engine.directory.name

    # Back-pressure.

    async def test_an_idle_engine_has_room(self, engine: StorageEngine, topic: Topic) -> None:
        await append(engine, "t", [make_batch()])
        assert engine.room
        await asyncio.wait_for(engine.wait_for_room(), 1)
        assert engine.bytes_per_client > 0
        assert engine.inline_eligible_appends >= 0
        assert isinstance(engine.next_flush_at, float)

    # Life.

    async def test_what_was_acknowledged_is_there_in_the_next_life(
        self, open_engine: OpenEngine
    ) -> None:
        async with open_engine() as engine:
            first = engine.incarnation
            topic = await engine.topics.create("t", 1, {"a": "1"})
            await append(engine, "t", [make_batch(b"a", producer_id=7, epoch=0, sequence=0)])
            engine.append(topic, 0, [make_batch(b"b")])  # closing writes it out
        async with open_engine() as engine:
            assert engine.incarnation != first
            assert await engine.topics.find("t") == topic
            assert (
                await append(engine, "t", [make_batch(b"a", producer_id=7, epoch=0, sequence=0)])
                == 0
            )
            assert await append(engine, "t", [make_batch(b"c")]) == 2
            assert await read_all(engine, "t") == [(0, b"a"), (1, b"b"), (2, b"c")]

    async def test_released_memory_is_read_again(self, engine: StorageEngine, topic: Topic) -> None:
        await append(engine, "t", [make_batch(b"a")])
        await engine.release_memory()
        assert await read_all(engine, "t") == [(0, b"a")]

    async def test_the_feature_level_is_known(self, engine: StorageEngine) -> None:
        assert engine.level >= 1
