"""Topics through lost answers: at whichever call, a change ends as if nothing had happened."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from uuid import UUID

import pytest

from headwater.clock import SystemClock
from headwater.engine import Topic
from headwater.errors import (
    InvalidConfig,
    InvalidPartitions,
    KafkaStorageError,
    StoreUnavailable,
    TopicAlreadyExists,
    UnknownOutcome,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from headwater.log.engine import LogEngine
from headwater.log.formats.metadata_values import Tail, TopicRecord
from headwater.log.topics import TopicStore
from headwater.meta import keys
from headwater.meta.memory import MemoryStore
from headwater.meta.store import KeyChange, Values, Writes, prefix_end
from headwater.meta.values import decode, encode
from headwater.objects.memory import MemoryObjects
from tests.support.log.harness import append, make_batch, memory_stores, running_engine
from tests.support.log.interrupted import InterruptedObjects, InterruptedStore, Interruption


def larger(configs: Mapping[str, str]) -> Mapping[str, str]:
    return {**configs, "retention.bytes": "9"}


WORK: dict[str, Callable[[LogEngine], Awaitable[Topic]]] = {
    "create": lambda engine: engine.topics.create("new", 3, {"retention.ms": "5"}),
    "delete": lambda engine: engine.topics.delete("old"),
    "add_partitions": lambda engine: engine.topics.add_partitions("old", 4),
    "change_configs": lambda engine: engine.topics.change_configs("old", larger),
}
LOST = {"lost": (UnknownOutcome("lost"), True), "refused": (StoreUnavailable("down"), False)}


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("name", WORK)
async def test_a_lost_answer_changes_nothing_about_the_end(name: str, how: str) -> None:
    error, after = LOST[how]
    number, struck = 0, True
    while struck:
        meta, interruption = MemoryStore(), Interruption()
        objects = MemoryObjects(clock=SystemClock())
        async with running_engine(
            InterruptedStore(meta, interruption),
            InterruptedObjects(objects, interruption),
            housekeeping=False,
        ) as engine:
            old = await engine.topics.create("old", 2, {"retention.ms": "7"})
            interruption.strike(range(number, number + 1), error, after=after)
            answered: Topic | None = None
            try:
                answered = await WORK[name](engine)
            except KafkaStorageError:
                # Only a read that comes before anything was done may fail.
                assert (name, number) in (("delete", 0), ("create", 0))
            struck = interruption.calls > number
            interruption.stop()
            if answered is None:
                answered = await WORK[name](engine)
            await check_end(name, meta, old, answered)
        await meta.close()
        number += 1
    assert number > 1


async def check_end(name: str, meta: MemoryStore, old: Topic, answered: Topic) -> None:
    found = await meta.scan(keys.TOPICS, prefix_end(keys.TOPICS))
    topics = {
        entry.key.removeprefix(keys.TOPICS): decode(TopicRecord, entry.value)
        for entry in found.entries
    }
    streams = [stream for record in topics.values() for stream in record.streams]
    assert len(streams) == len(set(streams))
    ids = await meta.scan(keys.TOPIC_IDS, prefix_end(keys.TOPIC_IDS))
    assert {entry.value.decode(): entry.key for entry in ids.entries} == {
        topic: keys.topic_id(UUID(bytes=record.id)) for topic, record in topics.items()
    }
    match name:
        case "create":
            assert set(topics) == {"old", "new"}
            assert tuple(topics["new"].streams) == answered.streams
            assert not set(answered.streams) & set(old.streams)
            assert topics["new"].configs == {"retention.ms": "5"}
        case "delete":
            assert not topics
            assert answered == old
            for stream in old.streams:
                tail = await meta.get(keys.tail(0, stream))
                assert tail is not None
                assert decode(Tail, tail.value).deleted
        case "add_partitions":
            assert tuple(topics["old"].streams) == answered.streams
            assert answered.streams[:2] == old.streams
            assert len(answered.streams) == 4
        case _:
            assert topics["old"].configs == {"retention.ms": "7", "retention.bytes": "9"}


async def closed(_streams: object) -> None:
    """The streams of a deleted topic are somebody else's."""


def catalog(meta: MemoryStore, seed: int = 1) -> TopicStore:
    return TopicStore(meta, Random(seed), closed)


async def test_refusals_are_named_and_change_nothing() -> None:
    meta = MemoryStore()
    topics = catalog(meta)
    topic = await topics.create("t", 2, {})
    revision = (await meta.scan("a", "b")).revision
    with pytest.raises(TopicAlreadyExists):
        await catalog(meta, 2).create("t", 2, {})
    for total in (1, 2):
        with pytest.raises(InvalidPartitions):
            await topics.add_partitions("t", total)
    for work in (
        topics.add_partitions("none", 3),
        topics.change_configs("none", larger),
        topics.delete("none"),
        topics.find("none"),
    ):
        with pytest.raises(UnknownTopicOrPartition):
            await work
    with pytest.raises(UnknownTopicId):
        await topics.find_by_id(UUID(int=7))

    def refuse(_configs: Mapping[str, str]) -> Mapping[str, str]:
        raise InvalidConfig("no")

    with pytest.raises(InvalidConfig):
        await topics.change_configs("t", refuse)
    assert (await meta.scan("a", "b")).revision == revision
    assert topics.get("t") == topic


async def test_stream_ids_are_never_used_again() -> None:
    meta = MemoryStore()
    topics = catalog(meta)
    seen: list[int] = []
    for _ in range(5):
        seen += (await topics.create("t", 2, {})).streams
        seen += (await topics.add_partitions("t", 3)).streams[2:]
        await topics.delete("t")
    assert len(set(seen)) == len(seen)


async def test_a_topic_created_again_replaces_the_one_remembered() -> None:
    meta = MemoryStore()
    one, two = catalog(meta), catalog(meta, 2)
    old = await one.create("t", 1, {})
    assert await two.find("t") == old
    await one.delete("t")
    new = await one.create("t", 1, {})
    stored = await meta.get(keys.topic("t"))
    assert stored is not None
    assert two.changed(KeyChange(stored.key, stored.value, stored.revision)) == old
    assert two.get("t") == new
    assert two.get_by_id(old.id) is None
    assert two.changed(KeyChange(stored.key, None, stored.revision + 1)) == new
    assert two.get("t") is None
    assert two.get_by_id(new.id) is None


async def test_records_for_a_topic_made_again_do_not_go_into_the_deleted_one() -> None:
    """Who deleted it died before it closed the streams, and another broker's cache lags."""
    store, objects = memory_stores()

    async def dies(_streams: Sequence[int]) -> None:
        raise KafkaStorageError("killed here")

    async with (
        running_engine(store, objects, broker_id=1, housekeeping=False) as ours,
        running_engine(store, objects, broker_id=2, housekeeping=False) as lagging,
    ):
        await ours.topics.create("t", 1, {})
        await lagging.topics.find("t")
        with pytest.raises(KafkaStorageError):
            await TopicStore(store, Random(3), dies).delete("t")
        await ours.topics.create("t", 1, {})
        with pytest.raises(UnknownTopicOrPartition):
            await append(lagging, "t", [make_batch(b"a")])


async def test_a_partition_that_the_cache_lacks_is_looked_for_in_the_store() -> None:
    store = MemoryStore()

    async def close(_streams: Sequence[int]) -> None: ...

    ours, theirs = (TopicStore(store, Random(number), close) for number in range(2))
    topic = await ours.create("t", 1, {})
    await theirs.find("t")
    await ours.add_partitions("t", 2)
    assert len((await theirs.find("t")).streams) == 1
    assert len((await theirs.find("t", partition=1)).streams) == 2
    await ours.add_partitions("t", 3)
    assert len((await theirs.find_by_id(topic.id, partition=2)).streams) == 3
    assert len((await theirs.find("t", partition=9)).streams) == 3


async def test_fields_of_newer_releases_survive_a_change() -> None:
    meta = MemoryStore()
    topics = catalog(meta)
    await topics.create("t", 1, {})
    stored = await meta.get(keys.topic("t"))
    assert stored is not None
    record = decode(TopicRecord, stored.value)
    record.__dict__["unknown"] = {"colour": "blue"}
    await _put(meta, keys.topic("t"), record)
    await topics.change_configs("t", larger)
    await topics.add_partitions("t", 2)
    changed = await meta.get(keys.topic("t"))
    assert changed is not None
    assert decode(TopicRecord, changed.value).unknown == {"colour": "blue"}


async def _put(meta: MemoryStore, key: str, record: TopicRecord) -> None:
    def decide(_values: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put(key, encode(record))
        return writes, None

    await meta.transact(0, [], decide)


async def test_the_version_of_the_topics_changes_with_them_and_only_with_them() -> None:
    async with running_engine(*memory_stores()) as engine:
        topics, seen = engine.topics, set()

        async def changed(work: Awaitable[object]) -> bool:
            before = topics.version
            await work
            assert (topics.version != before) == (topics.version not in seen)
            seen.add(topics.version)
            return topics.version != before

        seen.add(topics.version)
        assert await changed(topics.create("a", 1, {}))
        assert await changed(topics.create("b", 1, {}))
        assert not await changed(topics.all())
        assert not await changed(topics.find("a"))
        assert await changed(topics.add_partitions("a", 2))
        assert await changed(topics.change_configs("a", larger))
        assert await changed(topics.delete("b"))
        assert not await changed(topics.all())
        assert set(topics.names()) == {"a"}


async def test_topics_that_did_not_change_are_not_decoded_again() -> None:
    """Any client may ask for all topics at any time; a topic's rules are kept by its identity."""
    async with running_engine(*memory_stores()) as engine:
        topics = engine.topics
        for name in ("a", "b"):
            await topics.create(name, 1, {})
        first = await topics.all()
        await topics.change_configs("b", larger)
        second = await topics.all()
        assert second[0] is first[0]
        assert (second[1].id, second[1] == first[1]) == (first[1].id, False)
        await topics.delete("a")
        assert [topic.name for topic in await topics.all()] == ["b"]
        assert (await topics.create("a", 2, {})).id != first[0].id
        assert len((await topics.all())[0].streams) == 2


async def test_the_log_tells_which_topics_are_created_and_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "headwater.log.topics")
    meta, objects = memory_stores()
    async with running_engine(meta, objects, housekeeping=False) as engine:
        await engine.topics.create("orders", 2, {})
        await engine.topics.delete("orders")
    told = [(line.getMessage(), vars(line)["topic"]) for line in caplog.records]
    assert told == [("Created a topic", "orders"), ("Deleted a topic", "orders")]
    await meta.close()
