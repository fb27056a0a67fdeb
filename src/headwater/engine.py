"""What a broker needs of a storage engine, in three parts.

``Engine`` is the log that handlers use: topics, append, read and offsets. ``Backpressure`` tells
the listening side when to read from the sockets. ``EngineLifecycle`` is for the assembly.

``headwater.log`` implements them over object storage; a second engine over Kafka's own log
directory stands behind the same interfaces. A handler never knows which one it is on.

Errors that a client should see are raised as ``KafkaError``; an engine never raises a
``StoreError`` to a handler.
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
"""One topic-partition for ever: a number that is never used again."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as clients know it. ``configs`` holds what was set; defaults are not in it."""

    name: str
    id: UUID
    streams: tuple[StreamId, ...]
    configs: Mapping[str, str]

    @property
    def internal(self) -> bool:
        return self.name in ("__consumer_offsets", "__transaction_state")


class Appended(Struct, frozen=True):
    """Where one stream's batches of one request landed."""

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
    high watermark if none is open. Never above the high watermark, and it never goes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """What a stream remembers of an idempotent producer; -1 where there is nothing to say."""

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
    """Whole batches with their offsets set, ready to send, and the bounds they were read under.

    ``parts`` are views that must not be written to; ``size`` is their total length. ``aborted``
    are the aborted transactions that have records in ``parts``, by first offset; only a
    ``read_committed`` read lists them.
    """

    parts: list[memoryview]
    size: int
    offsets: Offsets
    aborted: Sequence[AbortedTransaction] = ()


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """Where an engine's records are, by the name that Kafka's tools show."""

    name: str
    path: Path | None = None
    """The directory on this host; None where the records are not in one."""


class Waiter(Protocol):
    """Wakes a long poll when one of its streams changed."""

    async def wait(self, seconds: float) -> bool:
        """True as soon as something changed since the last call; False after ``seconds``."""
        ...

    def close(self) -> None: ...


ConfigChange = Callable[[Mapping[str, str]], Mapping[str, str]]
"""From a topic's set configurations to what they shall be; it may raise ``InvalidConfig``."""


class Topics(Protocol):
    """The topics of the cluster. The cache behind ``get`` may lag, the others do not."""

    def get(self, name: str) -> Topic | None: ...

    def get_by_id(self, topic_id: UUID) -> Topic | None: ...

    def names(self) -> Collection[str]:
        """The cached topics' names."""
        ...

    @property
    def version(self) -> int:
        """Another number whenever the cached topics are others."""
        ...

    async def find(self, name: str, *, partition: int = 0) -> Topic:
        """Ask the store where the cache knows no such topic, or none with that partition.

        Raises ``UnknownTopicOrPartition`` where there is no such topic.
        """
        ...

    async def find_by_id(self, topic_id: UUID, *, partition: int = 0) -> Topic:
        """Like ``find``; raises ``UnknownTopicId``."""
        ...

    async def all(self) -> Sequence[Topic]:
        """Every topic, sorted by name, as the store has it."""
        ...

    async def stored_names(self) -> Collection[str]:
        """Every topic's name, as the store has it; cheaper than ``all``."""
        ...

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Raises ``TopicAlreadyExists``. Names, counts and configs were checked before."""
        ...

    async def delete(self, name: str) -> Topic:
        """Raises ``UnknownTopicOrPartition``."""
        ...

    async def add_partitions(self, name: str, total: int) -> Topic:
        """Raises ``UnknownTopicOrPartition``, ``InvalidPartitions`` unless total grows."""
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
        """Take batches in, in order of the calls. The future ends in one of three ways:

        - a result: the batches are durable, at the offsets that it names;
        - ``RequestTimedOut``: the outcome is unknown. The batches are visible, or become visible
          later, or never do, each as a whole;
        - any other ``KafkaError``: no batch is or ever becomes visible.

        A call with one batch, as clients make, keeps this to the letter. With several, an error
        that one batch caused (it was out of order, or its topic was deleted) may be the answer
        although others were appended. Whoever appends once more after ``RequestTimedOut`` needs a
        producer id and sequences, by which the log finds the duplicate.
        """
        ...

    def note_rejected(self, topic: Topic, partition: int, batches: Sequence[Batch]) -> None:
        """Note batches that were refused for the moment and not appended.

        Those that their producer has sent behind them must not be taken for the first ones.
        """
        ...

    def read(
        self, topic: Topic, partition: int, offset: int, max_bytes: int, *, committed: bool
    ) -> Read | Awaitable[Read]:
        """Whole batches from the one that holds ``offset`` on, at least one if there is any.

        They end at the last stable offset if ``committed``, else at the high watermark.
        Returns at once where caches hold the answer, and an awaitable where they do not.
        Raises ``OffsetOutOfRange`` only after having asked the store.
        """
        ...

    def waiter(self, seen: Mapping[StreamId, Offsets]) -> Waiter:
        """Wakes when a stream's bounds are no longer those that its last read had.

        That may be the case already: nothing that comes between the read and this call is missed.
        """
        ...

    async def offsets(self, topic: Topic, partition: int) -> Offsets:
        """The bounds as the store has them, not a cache."""
        ...

    async def end_of_epoch(self, topic: Topic, partition: int, epoch: int) -> int:
        """Up to where what was read under a leader epoch still holds; see ``Cluster``."""
        ...

    async def offset_for_timestamp(
        self, topic: Topic, partition: int, timestamp_ms: int
    ) -> TimestampedOffset | None:
        """The first record with that timestamp or a later one."""
        ...

    async def max_timestamp(self, topic: Topic, partition: int) -> TimestampedOffset | None:
        """The first record that has the stream's largest timestamp."""
        ...

    async def delete_records(self, topic: Topic, partition: int, before: int) -> int:
        """Advance log start to ``before`` (-1: the high watermark); returns the log start."""
        ...

    async def sizes(self, streams: Collection[StreamId]) -> Mapping[StreamId, int]:
        """The bytes that each stream holds, as they were produced; an empty one may be left out.

        Asked for very many streams at once.
        """
        ...

    async def producers(self, topic: Topic, partition: int) -> Sequence[Producer]:
        """The idempotent producers that the stream remembers, by id."""
        ...


class Backpressure(Protocol):
    """What the listening side asks before it reads from the sockets."""

    @property
    def room(self) -> bool:
        """False while the write buffers are full: the sockets should not be read."""
        ...

    async def wait_for_room(self) -> None: ...

    @property
    def bytes_per_client(self) -> int:
        """What a connection may have unanswered, so that it does not take all of the room."""
        ...

    @property
    def inline_eligible_appends(self) -> int:
        """Appends so far that may skip the flush interval."""
        ...

    @property
    def next_flush_at(self) -> float:
        """When the other appends may be flushed, by the event loop's clock."""
        ...


class EngineLifecycle(Protocol):
    """How a broker starts an engine, keeps it running and ends it.

    ``start`` it, keep ``run`` in a task, then ``close`` it.
    """

    @property
    def incarnation(self) -> str:
        """The name under which the engine writes at the moment; empty before it is started."""
        ...

    @property
    def level(self) -> int:
        """The cluster's feature level, as far as this broker knows."""
        ...

    async def start(self) -> None: ...

    async def run(self) -> None:
        """Do the engine's own work, until cancelled. Raises what ends the broker."""
        ...

    async def release_memory(self) -> None:
        """Drop what is kept for readers and can be read again; for times without work."""
        ...

    async def close(self) -> None:
        """Write out what is buffered and stop. Nothing may be appended any more."""
        ...


class StorageEngine(Engine, EngineLifecycle, Backpressure, Protocol):
    """A whole engine, as the assembly of a broker holds it; its users are given a part."""


class ProducerIds(Protocol):
    """Gives the cluster's idempotent producers their ids."""

    async def allocate(self) -> int:
        """A producer id that was never given before."""
        ...
