"""What a broker needs from a storage engine, in three parts.

``Engine`` is the log that handlers use: topics, append, read and offsets. ``Backpressure`` tells
connections when to read from their sockets. ``EngineLifecycle`` is for the assembly.

``headwater.log`` implements them over object storage. A second engine, over Kafka's own log
directory, can implement the same interfaces; handlers do not depend on the engine.

Errors for clients are raised as ``KafkaError``. An engine never raises a ``StoreError`` to a
handler.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import UUID

from msgspec import Struct

from headwater.wire.batches.batch import Batch
from headwater.wire.batches.records import TimestampedOffset

__all__ = (
    "AbortedTransaction",
    "Appended",
    "Backpressure",
    "ConfigChange",
    "Engine",
    "EngineLifecycle",
    "LogDirectory",
    "Offsets",
    "Producer",
    "ProducerIds",
    "Read",
    "StorageEngine",
    "StreamId",
    "TimestampedOffset",
    "Topic",
    "Topics",
    "Waiter",
)

StreamId = int
"""One partition of one topic, as a number that is never used again."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as clients know it. ``configs`` has the set configurations, without defaults."""

    name: str
    id: UUID
    streams: tuple[StreamId, ...]
    configs: Mapping[str, str]

    @property
    def internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state")


class Appended(Struct, frozen=True):
    """The offset and time that an append's batches got."""

    base_offset: int
    log_append_time_ms: int
    log_start: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """A stream's bounds: records live in ``[log_start, high_watermark)``."""

    log_start: int
    high_watermark: int
    last_stable: int
    """Where ``read_committed`` reads end: the first offset of the oldest open transaction, or the
    high watermark if none is open. It is never above the high watermark and never decreases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """What a stream remembers of an idempotent producer; -1 for an unknown value."""

    id: int
    epoch: int
    last_sequence: int
    last_append_ms: int
    transaction_start: int
    coordinator_epoch: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction as a Fetch reply names it: the consumer drops its records."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Read:
    """Whole batches with their offsets set, ready to send, and the stream's bounds at that time.

    ``parts`` are views that must not be written to; ``size`` is their total length. ``aborted`` are
    the aborted transactions with records in ``parts``, by first offset. Only a ``read_committed``
    read has them.
    """

    parts: list[memoryview]
    size: int
    offsets: Offsets
    aborted: Sequence[AbortedTransaction] = ()


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """Where an engine's records are; ``name`` is what Kafka's tools show."""

    name: str
    path: Path | None = None
    """The directory on this host; None if the records are elsewhere."""


class Waiter(Protocol):
    """Wakes a long poll when one of its streams changes."""

    async def wait(self, seconds: float) -> bool:
        """True as soon as something changed since the last call; False after ``seconds``."""
        ...

    def close(self) -> None: ...


ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From a topic's set configurations to the new ones. It may raise ``InvalidConfig``."""


class Topics(Protocol):
    """The topics of the cluster. The cache of ``get`` and ``names`` may lag."""

    def get(self, name: str) -> Topic | None: ...

    def get_by_id(self, topic_id: UUID) -> Topic | None: ...

    def names(self) -> Collection[str]:
        """The cached topics' names."""
        ...

    @property
    def version(self) -> int:
        """A number that changes with the cached topics."""
        ...

    async def find(self, name: str, *, partition: int = 0) -> Topic:
        """The topic. Reads the store if the cache has no such topic, or not that partition.

        Raises ``UnknownTopicOrPartition`` if there is no such topic.
        """
        ...

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Topic:
        """Like ``find``; raises ``UnknownTopicId``."""
        ...

    async def all(self) -> Sequence[Topic]:
        """Every topic, sorted by name, read from the store."""
        ...

    async def stored_names(self) -> Collection[str]:
        """Every topic's name, read from the store; cheaper than ``all``."""
        ...

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Raises ``TopicAlreadyExists``. The caller has checked name, count and configurations."""
        ...

    async def delete(self, name: str) -> Topic:
        """Raises ``UnknownTopicOrPartition``."""
        ...

    async def add_partitions(self, name: str, total: int) -> Topic:
        """Raises ``UnknownTopicOrPartition``; ``InvalidPartitions`` if ``total`` is too low."""
        ...

    async def change_configs(self, name: str, change: ConfigChange) -> Topic:
        """Replace a topic's configurations atomically."""
        ...


class Engine(Protocol):
    """What a log does."""

    @property
    def topics(self) -> Topics: ...

    @property
    def directory(self) -> LogDirectory:
        """Where every partition's records are."""
        ...

    def append(
        self, topic: Topic, partition: int, batches: Sequence[Batch]
    ) -> asyncio.Future[Appended]:
        """Append batches, in the order of the calls. The future ends in one of three ways:

        - a result: the batches are durable, at the offsets that it names;
        - ``RequestTimedOut``: the outcome is unknown. The batches are visible, or become visible
          later, or never do, each as a whole;
        - any other ``KafkaError``: no batch is or ever becomes visible.

        This holds exactly for a call with one batch, as clients make it. A call with several
        batches may get the error of one batch (it was out of order, or its topic was deleted)
        although others were appended. To append again after ``RequestTimedOut`` without duplicates,
        a caller needs a producer id and sequences.
        """
        ...

    def note_rejected(self, topic: Topic, partition: int, batches: Sequence[Batch]) -> None:
        """Note batches that were refused with a retriable error and not appended.

        Then later batches of the same producer are not taken for its first ones.
        """
        ...

    def read(
        self, topic: Topic, partition: int, offset: int, max_bytes: int, *, committed: bool
    ) -> Read | Awaitable[Read]:
        """Whole batches from the one that holds ``offset`` on, at least one if there is any.

        They end at the last stable offset if ``committed``, else at the high watermark. Returns the
        result itself if it is cached, else an awaitable. Raises ``OffsetOutOfRange`` only after
        reading the bounds from the store.
        """
        ...

    def waiter(self, seen: Mapping[StreamId, Offsets]) -> Waiter:
        """A waiter that wakes when a stream's bounds differ from ``seen``, those of its last read.

        If they differ already, it wakes at once. So no change between read and call is missed.
        """
        ...

    async def offsets(self, topic: Topic, partition: int) -> Offsets:
        """The bounds, read from the store."""
        ...

    async def end_of_epoch(self, topic: Topic, partition: int, epoch: int) -> int:
        """The offset below which records that were read under a leader epoch are still the same."""
        ...

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        """The first record with at least that timestamp."""
        ...

    async def max_timestamp(self, topic: Topic, partition: int) -> TimestampedOffset | None:
        """The first record that has the stream's largest timestamp."""
        ...

    async def delete_records(self, topic: Topic, partition: int, before: int) -> int:
        """Advance log start to ``before`` (-1: the high watermark); returns the log start."""
        ...

    async def sizes(self, streams: Collection[StreamId]) -> Mapping[StreamId, int]:
        """The produced bytes in each stream; empty streams may be left out.

        Called for very many streams at once.
        """
        ...

    async def producers(self, topic: Topic, partition: int) -> Sequence[Producer]:
        """The idempotent producers that the stream remembers, by id."""
        ...


class Backpressure(Protocol):
    """What connections check before they read from their sockets."""

    @property
    def room(self) -> bool:
        """False while the write buffers are full: then sockets are not read."""
        ...

    async def wait_for_room(self) -> None: ...

    @property
    def bytes_per_client(self) -> int:
        """In-flight bytes that one connection may have, so that it does not fill all buffers."""
        ...

    @property
    def inline_eligible_appends(self) -> int:
        """Appends so far that may skip the flush interval."""
        ...

    @property
    def next_flush_at(self) -> float:
        """When all other appends may be flushed, by the event loop's clock."""
        ...


class EngineLifecycle(Protocol):
    """How a broker starts an engine, keeps it running and ends it.

    ``start`` it, keep ``run`` in a task, then ``close`` it.
    """

    @property
    def incarnation(self) -> str:
        """The name of the active incarnation; empty before the engine is started."""
        ...

    @property
    def level(self) -> int:
        """The cluster's feature level, as this broker knows it."""
        ...

    async def start(self) -> None: ...

    async def run(self) -> None:
        """Run the engine's tasks until cancelled. An error that it raises ends the broker."""
        ...

    async def release_memory(self) -> None:
        """Drop caches that can be loaded again; for an idle broker."""
        ...

    async def close(self) -> None:
        """Flush the buffer and stop. Nothing may be appended any more."""
        ...


class StorageEngine(Engine, EngineLifecycle, Backpressure, Protocol):
    """A whole engine. The assembly of a broker has it; other modules get one of its parts."""


class ProducerIds(Protocol):
    """Gives the cluster's idempotent producers their ids."""

    async def allocate(self) -> int:
        """A producer id that was never used before."""
        ...
