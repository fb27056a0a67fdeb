"""Whatever a store does to the engine, a handler sees a Kafka error, and the next call works."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headwater.engine import Read, Topic
from headwater.errors import (
    KafkaError,
    ObjectNotFound,
    StorageFull,
    StoreError,
    StoreUnavailable,
    UnknownFormat,
    UnknownOutcome,
)
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import Incarnation, Tail
from headwater.log.read.change_follower import ChangeFollower
from headwater.log.settings import LogSettings
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import KeyChange, Values, Writes
from headwater.meta.values import encode
from headwater.producer_ids import StoredProducerIds
from headwater.wire.batches.batch import split_batches
from headwater.wire.batches.records import Record, encode_batch
from tests.support.log.harness import make_batch, memory_stores, running_engine
from tests.support.log.interrupted import InterruptedObjects, InterruptedStore, Interruption

Call = Callable[[LogEngine, Topic], Awaitable[object]]


async def read(engine: LogEngine, topic: Topic) -> object:
    answer = engine.read(topic, 0, 0, 1000, committed=False)
    return answer if isinstance(answer, Read) else await answer


async def append(engine: LogEngine, topic: Topic) -> object:
    return await engine.append(topic, 0, [make_batch(b"x" * 300)])


async def allocate(engine: LogEngine, _: Topic) -> object:
    context = engine._context
    return await StoredProducerIds(context.meta, context.cluster).allocate()


CALLS: dict[str, Call] = {
    "append": append,
    "read": read,
    "offsets": lambda engine, topic: engine.offsets(topic, 0),
    "offset_for_timestamp": lambda engine, topic: engine.offset_for_timestamp(topic, 0, 5),
    "max_timestamp": lambda engine, topic: engine.max_timestamp(topic, 0),
    "delete_records": lambda engine, topic: engine.delete_records(topic, 0, 1),
    "allocate": allocate,
    "find": lambda engine, _: engine.topics.find("other"),
    "find_by_id": lambda engine, topic: engine.topics.find_by_id(topic.id),
    "all": lambda engine, _: engine.topics.all(),
    "create": lambda engine, _: engine.topics.create("another", 1, {}),
    "delete": lambda engine, _: engine.topics.delete("other"),
    "add_partitions": lambda engine, _: engine.topics.add_partitions("other", 5),
    "change_configs": lambda engine, _: engine.topics.change_configs("other", lambda old: old),
}
ERRORS: list[StoreError] = [
    StoreUnavailable("down"),
    StorageFull("full"),
    UnknownFormat("newer"),
    ObjectNotFound("gone"),
    StoreError("odd"),
]
SETTINGS = LogSettings(inline_bytes=100)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("name", CALLS)
async def test_no_store_error_reaches_a_handler(name: str, error: StoreError) -> None:
    number, struck = 0, True
    while struck:
        meta, objects = memory_stores()
        async with running_engine(
            meta, objects, broker_id=8, settings=SETTINGS, housekeeping=False
        ) as first:
            topic = await first.topics.create("t", 1, {})
            await first.topics.create("other", 1, {})
            for payload in (b"inline", b"object" * 50):
                data = encode_batch([Record(0, 7, None, payload)])
                await first.append(topic, 0, split_batches(data))
        interruption = Interruption()
        async with running_engine(
            InterruptedStore(meta, interruption),
            InterruptedObjects(objects, interruption),
            settings=SETTINGS,
            housekeeping=False,
        ) as engine:
            interruption.strike(range(number, number + 1), error)
            try:
                await CALLS[name](engine, topic)
            except KafkaError:
                interruption.stop()
                await CALLS[name](engine, topic)
            struck = interruption.calls > number
            interruption.stop()
        await meta.close()
        number += 1
    assert number > 1


async def put(meta: MemoryStore, key: str, value: bytes) -> None:
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put(key, value)
        return writes, None

    await meta.transact(0, [], decide)


async def test_a_tail_of_a_newer_release_is_an_error_by_name() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        newer = encode(Tail()).replace(b"\xa1v\x01", b"\xa1v\x09")
        await put(meta, keys.tail(0, topic.streams[0]), newer)
        for name in ("read", "offsets", "max_timestamp", "delete_records", "append"):
            with pytest.raises(KafkaError, match="format 9"):
                await CALLS[name](engine, topic)


async def test_a_commit_that_landed_unheard_before_the_fence_is_served() -> None:
    meta, objects = memory_stores()
    interruption = Interruption()
    store = InterruptedStore(meta, interruption)
    async with running_engine(store, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        assert not _parts(await read(engine, topic))
        interruption.strike(range(1), UnknownOutcome("lost"), after=True)
        pending = engine.append(topic, 0, [make_batch(b"landed")])
        while (await meta.get(keys.tail(0, topic.streams[0]))) is None:
            pass
        await _fence(meta, engine.incarnation)
        with pytest.raises(KafkaError, match="fenced"):
            await pending
        await engine.become_new_incarnation()
        assert _parts(await read(engine, topic))


def _parts(answer: object) -> list[memoryview]:
    assert isinstance(answer, Read)
    return answer.parts


async def _fence(meta: MemoryStore, name: str) -> None:
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.delete(keys.incarnation(0, name))
        return writes, None

    await meta.transact(0, [], decide)


async def test_commits_of_a_broker_not_seen_before_are_not_taken_for_all() -> None:
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        await engine.offsets(topic, 0)
        state = engine._streams[topic.streams[0]]
        follower: ChangeFollower = engine._follower
        key = keys.incarnation(0, "other")
        follower._commits(KeyChange(key, encode(Incarnation(broker=2, number=1)), 1))
        assert state.loaded
        # Three commits folded into one change: what the first two touched is not in it.
        key = keys.incarnation(0, "another")
        follower._commits(KeyChange(key, encode(Incarnation(broker=3, number=3)), 2))
        assert not state.loaded
        follower._commits(KeyChange(key, None, 3))
        assert "another" not in follower._numbers


async def test_bounds_read_before_changes_were_missed_are_not_trusted() -> None:
    meta, objects = memory_stores()
    interruption = Interruption()
    store = InterruptedStore(meta, interruption)
    async with running_engine(store, objects, housekeeping=False) as engine:
        topic = await engine.topics.create("t", 1, {})
        interruption.strike(range(2))
        loading = asyncio.create_task(engine.offsets(topic, 0))
        await asyncio.sleep(0)
        engine._streams.invalidate_bounds()
        interruption.stop()
        await loading
        assert not engine._streams[topic.streams[0]].loaded
        await engine.offsets(topic, 0)
        assert engine._streams[topic.streams[0]].loaded
