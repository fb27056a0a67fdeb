"""The cluster's topics in the metadata store, and this broker's cache of them.

Invariants:

- A topic's record, its id and its streams' ids are written in one transaction; stream ids are
  never used again. A stream without a tail is empty, so nothing else is created.
- A deletion removes the record and notes the streams in one transaction. Then their tails are
  marked as deleted, so that appends in flight lose the comparison, and the streams are cleaned up.
- The cache may lag until the watch corrects it. If a newer change of a topic arrives before the
  answer of a look-up, the answer is returned but not cached, since no later change would correct
  it.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from uuid import UUID

from headwater.engine import ConfigChange, Topic
from headwater.errors import (
    InvalidPartitions,
    KafkaStorageError,
    StoreError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from headwater.log.formats.metadata_values import DeletedTopic, TopicRecord
from headwater.meta import keys
from headwater.meta.store import Entry, KeyChange, MetadataStore, Scan, Values, Writes, prefix_end
from headwater.meta.transactions import commit
from headwater.meta.values import NextNumber, decode, encode

logger = logging.getLogger(__name__)


class _Lookup:
    """A running look-up of a topic in the metadata store."""

    __slots__ = ("name", "overtaken")

    def __init__(self, name: str) -> None:
        self.name = name
        self.overtaken = -1
        """The revision of the newest change of the topic that arrived before the answer."""


class TopicStore:
    """See ``headwater.engine.Topics``."""

    def __init__(
        self,
        meta: MetadataStore,
        rng: Random,
        close_streams: Callable[[Sequence[int]], Awaitable[None]],
    ) -> None:
        self._meta = meta
        self._rng = rng
        self._close_streams = close_streams
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[UUID, Topic] = {}
        self._values: dict[str, bytes] = {}
        """The encoded records, so that a scan decodes only changed topics."""
        self._version = 0
        self._revision = -1
        """The revision of the newest change or scan that was applied."""
        self._lookups: set[_Lookup] = set()

    def get(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def get_by_id(self, topic_id: UUID) -> Topic | None:
        return self._by_id.get(topic_id)

    def names(self) -> Collection[str]:
        return self._by_name.keys()

    @property
    def version(self) -> int:
        return self._version

    async def find(self, name: str, *, partition: int = 0) -> Topic:
        topic = self._by_name.get(name)
        if topic is not None and partition < len(topic.streams):
            return topic
        with self._looking_up(name) as lookup:
            entry = await self._get(keys.topic(name))
            if entry is None:
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
            return self._learn(lookup, entry.value, entry.revision)

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is not None and partition < len(topic.streams):
            return topic
        named = await self._get(keys.topic_id(topic_id))
        if named is not None:
            with self._looking_up(named.value.decode()) as lookup:
                entry = await self._get(keys.topic(lookup.name))
                if entry is not None and decode(TopicRecord, entry.value).id == topic_id.bytes:
                    return self._learn(lookup, entry.value, entry.revision)
        raise UnknownTopicId(f"no topic has the id {topic_id}")

    async def _get(self, key: str) -> Entry | None:
        try:
            return await self._meta.get(key)
        except StoreError as error:
            raise KafkaStorageError(f"cannot read topics: {error}") from error

    async def all(self) -> Sequence[Topic]:
        found = await self._scan()
        values = [(entry.key.removeprefix(keys.TOPICS), entry.value) for entry in found.entries]
        if found.revision < self._revision:
            return [self._known(*each) or _topic(*each) for each in values]
        self._revision = found.revision
        self._overtake(None, found.revision)
        topics = [self._known(*each) or self._remember(*each) for each in values]
        for name in self._by_name.keys() - {topic.name for topic in topics}:
            self._forget(name)
        return topics

    async def stored_names(self) -> Collection[str]:
        return [entry.key.removeprefix(keys.TOPICS) for entry in (await self._scan()).entries]

    async def _scan(self) -> Scan:
        try:
            return await self._meta.scan(keys.TOPICS, prefix_end(keys.TOPICS))
        except StoreError as error:
            raise KafkaStorageError(f"cannot read topics: {error}") from error

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        topic_id = UUID(int=self._rng.getrandbits(128), version=4)

        def decide(values: Values) -> tuple[Writes, bytes]:
            writes = Writes()
            if (there := values[keys.topic(name)]) is not None:
                record = decode(TopicRecord, there.value)
                if record.id == topic_id.bytes:
                    return writes, there.value  # The first attempt was applied.
                raise TopicAlreadyExists(f"topic {name!r} already exists")
            streams = _take_streams(values, writes, partitions)
            value = encode(TopicRecord(id=topic_id.bytes, streams=streams, configs=dict(configs)))
            writes.put(keys.topic(name), value)
            writes.put(keys.topic_id(topic_id), name.encode())
            return writes, value

        await self._close_deleted(name)
        with self._looking_up(name) as lookup:
            done = await commit(self._meta, [keys.topic(name), keys.NEXT_STREAM], decide)
            logger.info("Created a topic", extra={"topic": name, "partitions": partitions})
            return self._learn(lookup, done.result, done.revision)

    async def _close_deleted(self, name: str) -> None:
        """Close the streams of deleted topics of this name that are still open.

        The broker that deleted a topic may have died before it closed the streams. Then a broker
        whose cache is out of date would append records for the new topic to the old streams.
        """
        try:
            found = await self._meta.scan(keys.DELETED_TOPICS, prefix_end(keys.DELETED_TOPICS))
        except StoreError as error:
            raise KafkaStorageError(f"cannot read deleted topics: {error}") from error
        written = name.encode()
        for entry in found.entries:
            if written not in entry.value:
                continue  # There may be thousands of other topics: do not decode them.
            deleted = decode(DeletedTopic, entry.value)
            if deleted.name == name:
                await self._close_streams(deleted.streams)

    async def delete(self, name: str) -> Topic:
        entry = await self._get(keys.topic(name))
        if entry is None:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
        topic = _topic(name, entry.value)
        deleted_key = keys.deleted_topic(topic.id)

        def decide(values: Values) -> tuple[Writes, None]:
            writes = Writes()
            there = values[keys.topic(name)]
            if there is None or decode(TopicRecord, there.value).id != topic.id.bytes:
                if values[deleted_key] is not None:
                    return writes, None  # The first attempt was applied.
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
            record = decode(TopicRecord, there.value)
            gone = DeletedTopic(name=name, streams=record.streams, domain=record.domain)
            writes.delete(keys.topic(name))
            writes.delete(keys.topic_id(topic.id))
            writes.put(deleted_key, encode(gone))
            return writes, None

        with self._looking_up(name) as lookup:
            done = await commit(self._meta, [keys.topic(name), deleted_key], decide)
            if done.revision >= lookup.overtaken:
                self._forget(name)
        logger.info("Deleted a topic", extra={"topic": name, "partitions": len(topic.streams)})
        await self._close_streams(topic.streams)
        return topic

    async def add_partitions(self, name: str, total: int) -> Topic:
        proposed: set[bytes] = set()

        def decide(values: Values) -> tuple[Writes, bytes]:
            writes = Writes()
            there, record = _existing(values, name)
            if there in proposed:
                return writes, there  # The first attempt was applied.
            if total < len(record.streams):
                raise InvalidPartitions(
                    f"topic {name!r} has {len(record.streams)} partitions, {total} is fewer"
                )
            if total == len(record.streams):
                raise InvalidPartitions(f"topic {name!r} has {total} partitions already")
            record.streams += _take_streams(values, writes, total - len(record.streams))
            value = encode(record)
            proposed.add(value)
            writes.put(keys.topic(name), value)
            return writes, value

        with self._looking_up(name) as lookup:
            done = await commit(self._meta, [keys.topic(name), keys.NEXT_STREAM], decide)
            return self._learn(lookup, done.result, done.revision)

    async def change_configs(self, name: str, change: ConfigChange) -> Topic:
        def decide(values: Values) -> tuple[Writes, bytes]:
            writes = Writes()
            _, record = _existing(values, name)
            record.configs = dict(change(record.configs))
            value = encode(record)
            writes.put(keys.topic(name), value)
            return writes, value

        with self._looking_up(name) as lookup:
            done = await commit(self._meta, [keys.topic(name)], decide)
            return self._learn(lookup, done.result, done.revision)

    def changed(self, change: KeyChange) -> Topic | None:
        """Apply a watched change; returns the topic that it removed or replaced."""
        name = change.key.removeprefix(keys.TOPICS)
        self._revision = max(change.revision, self._revision)
        self._overtake(name, change.revision)
        old = self._by_name.get(name)
        if change.value is None:
            self._forget(name)
            return old
        topic = self._remember(name, change.value)
        return old if old is not None and old.id != topic.id else None

    @contextmanager
    def _looking_up(self, name: str) -> Iterator[_Lookup]:
        lookup = _Lookup(name)
        self._lookups.add(lookup)
        try:
            yield lookup
        finally:
            self._lookups.discard(lookup)

    def _overtake(self, name: str | None, revision: int) -> None:
        """A change of a topic, or of all topics, arrived before the answers of running look-ups."""
        for lookup in self._lookups:
            if name is None or lookup.name == name:
                lookup.overtaken = max(lookup.overtaken, revision)

    def _learn(self, lookup: _Lookup, value: bytes, revision: int) -> Topic:
        if revision < lookup.overtaken:
            return _topic(lookup.name, value)
        return self._remember(lookup.name, value)

    def _known(self, name: str, value: bytes) -> Topic | None:
        """The cached topic, if it was decoded from the same value."""
        return self._by_name.get(name) if self._values.get(name) == value else None

    def _remember(self, name: str, value: bytes) -> Topic:
        topic = _topic(name, value)
        self._values[name] = value
        old = self._by_name.get(name)
        if old is not None and old.id != topic.id:
            self._by_id.pop(old.id, None)
        if old != topic:
            self._version += 1
        self._by_name[name] = topic
        self._by_id[topic.id] = topic
        return topic

    def _forget(self, name: str) -> None:
        topic = self._by_name.pop(name, None)
        self._values.pop(name, None)
        if topic is not None:
            self._by_id.pop(topic.id, None)
            self._version += 1


def _topic(name: str, value: bytes) -> Topic:
    record = decode(TopicRecord, value)
    return Topic(name, UUID(bytes=record.id), tuple(record.streams), record.configs)


def _existing(values: Values, name: str) -> tuple[bytes, TopicRecord]:
    there = values[keys.topic(name)]
    if there is None:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    return there.value, decode(TopicRecord, there.value)


def _take_streams(values: Values, writes: Writes, count: int) -> list[int]:
    there = values[keys.NEXT_STREAM]
    counter = decode(NextNumber, there.value) if there is not None else NextNumber(next=1)
    streams = list(range(counter.next, counter.next + count))
    counter.next += count
    writes.put(keys.NEXT_STREAM, encode(counter))
    return streams
