"""A broker process with its data, real clients of it, and its tables."""

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from headwater.log.formats.metadata_values import IndexEntry
from headwater.meta import keys
from headwater.meta.store import prefix_end
from headwater.meta.values import decode
from headwater.pipeline.cluster_stores import ClusterStores, StoreLocation, open_cluster_stores
from headwater.pipeline.compaction.compactor import Compactor
from headwater.pipeline.compaction.range_task import run_packed
from headwater.pipeline.compaction.summary import RunSummary, Watcher
from headwater.pipeline.metadata_reads import StoredTopic, read_topics
from headwater.pipeline.settings import PipelineSettings
from headwater.pipeline.spark.runner import Done, Runner
from headwater.tables.settings import TableSettings
from peers.headwater import start_headwater
from peers.process import Server

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FEW_CODECS = ("none", "zstd")
CLAIM_MS = 1000
FILE_BYTES = 40_000
"""Small, so that a few records make several files."""

ENVIRONMENT = {
    "HEADWATER_LOG_INLINE_BYTES": "3000",
    "HEADWATER_LOG_MERGE_INTERVAL_MS": "500",
    "HEADWATER_LOG_GC_INTERVAL_MS": "500",
    "HEADWATER_LOG_GC_GRACE_MS": "1000",
    "HEADWATER_LOG_ORPHAN_GRACE_MS": "500",
    "HEADWATER_LOG_SWEEP_INTERVAL_MS": "1000",
    # Garbage waits for the next snapshot of the metadata; here there is none.
    "HEADWATER_LOG_SNAPSHOT_INTERVAL_MS": "0",
}

names = itertools.count()


class Row(NamedTuple):
    """A record, however it was read."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class InProcessRunner:
    """Runs tasks here, in place of Spark: what is tested is the driver."""

    def run(self, tasks: Sequence[bytes], done: Done) -> list[bytes]:
        return [run_packed(task) for task in tasks]

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PipelineCluster:
    """A running broker and the directory of its data."""

    server: Server
    data: Path
    tables: TableSettings = field(default_factory=TableSettings)
    objects_url: str | None = None
    """Where its objects are not in ``data``."""

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def address(self) -> StoreLocation:
        own = address_of(self.data)
        return own if self.objects_url is None else replace(own, objects_url=self.objects_url)

    def open(
        self, settings: TableSettings | None = None
    ) -> AbstractAsyncContextManager[ClusterStores]:
        return open_cluster_stores(self.address, settings or self.tables)

    def admin(self) -> AdminClient:
        """A quiet one: on its way out it may write to the standard error that a test looks at."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        name = name or f"topic-{next(names)}"
        admin = self.admin()
        new = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(configs or {})})
        admin.create_topics([new], operation_timeout=20)[name].result(30)
        return name

    def configure(self, topic: str, configs: Mapping[str, str]) -> None:
        """Set some of a topic's configurations; the others stay."""
        admin = self.admin()
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        admin.incremental_alter_configs([resource])[resource].result(30)

    def delete_topic(self, name: str) -> None:
        admin = self.admin()
        admin.delete_topics([name], operation_timeout=20)[name].result(30)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        admin = self.admin()
        wanted = TopicPartition(topic, partition, before)
        admin.delete_records([wanted])[wanted].result(30)

    def produce(
        self,
        topic: str,
        count: int,
        *,
        partitions: int = 1,
        seed: int = 0,
        codecs: Sequence[str] = FEW_CODECS,
        keys: int | None = None,
    ) -> None:
        """Records of every kind, by idempotent producers of several codecs in turn.

        With ``keys``, each record has one of this many keys.
        """
        rng = random.Random(seed)
        for place, codec in enumerate(codecs):
            producer = idempotent_producer(self.bootstrap, codec)
            for number in range(count * place // len(codecs), count * (place + 1) // len(codecs)):
                headers: list[Any] = [
                    (rng.choice(["h", "", "ключ"]), rng.choice([None, b"", rng.randbytes(9)]))
                    for _ in range(rng.choice([0, 0, 1, 3]))
                ]
                producer.produce(
                    topic,
                    value=rng.choice([None, b"", b"v" * rng.randrange(200), rng.randbytes(50)]),
                    key=f"k{rng.randrange(keys)}".encode()
                    if keys
                    else rng.choice([None, b"", f"k{number}".encode()]),
                    headers=headers or None,
                    partition=rng.randrange(partitions),
                    timestamp=rng.choice([0, 1_700_000_000_000 + rng.randrange(10**9)]) or 1,
                )
            assert producer.flush(30) == 0

    def consume(self, topic: str) -> list[Row]:
        """Every record of the topic through Kafka, by partition and offset."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "tests"})
        try:
            partitions = consumer.list_topics(topic, 20).topics[topic].partitions
            return [row for each in sorted(partitions) for row in _consume(consumer, topic, each)]
        finally:
            consumer.close()

    def log_starts(self, topic: str) -> dict[int, int]:
        """The first offset of each partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "tests"})
        try:
            partitions = consumer.list_topics(topic, 20).topics[topic].partitions
            return {
                each: consumer.get_watermark_offsets(TopicPartition(topic, each), 20)[0]
                for each in partitions
            }
        finally:
            consumer.close()

    async def table(self, topic: str) -> list[Row]:
        """Every record of the topic's table, read by pyiceberg."""
        async with self.open() as place:
            (found,) = await read_topics(place.meta, [topic])
            return table_rows(place, found)

    async def entries(self, topic: str) -> list[IndexEntry]:
        """The topic's index entries, partition by partition."""
        async with self.open() as place:
            (found,) = await read_topics(place.meta, [topic])
            entries = []
            for stream in found.streams:
                prefix = keys.index(0, stream)
                scanned = await place.meta.scan(prefix, prefix_end(prefix))
                entries += [decode(IndexEntry, each.value) for each in scanned.entries]
            return entries

    def data_files(self) -> set[str]:
        """The keys of all files that jobs wrote."""
        root = self.data / "objects"
        return {str(file.relative_to(root)) for file in root.glob("tables/*/data/*/*")}

    async def compact(
        self,
        *topics: str,
        runner: Runner | None = None,
        watcher: Watcher | None = None,
        file_bytes: int | None = None,
    ) -> RunSummary:
        async with self.open() as place:
            compactor = make_compactor(
                place, runner=runner, watcher=watcher, file_bytes=file_bytes or FILE_BYTES
            )
            try:
                return await compactor.compact(topics)
            finally:
                compactor.close()


@cache
def idempotent_producer(bootstrap: str, codec: str) -> Producer:
    """One for the whole run: each takes half a second to get its id."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.num.messages": 50,
            "log_level": 0,
        }
    )


def address_of(data: Path) -> StoreLocation:
    return StoreLocation(
        data=data,
        metadata_url=f"sqlite:///{data}/metadata.db",
        objects_url=f"file://{data}/objects",
    )


def make_compactor(
    place: ClusterStores,
    *,
    runner: Runner | None = None,
    watcher: Watcher | None = None,
    max_age_ms: int = 0,
    interval_ms: int = 1000,
    file_bytes: int = FILE_BYTES,
    claim_ms: int = CLAIM_MS,
) -> Compactor:
    return Compactor(
        meta=place.meta,
        objects=place.objects,
        reclaimer=place.reclaimer,
        objects_url=place.location.objects_url,
        clock=place.clock,
        tables=place.tables,
        runner=runner or InProcessRunner(),
        settings=PipelineSettings(
            file_bytes=file_bytes,
            claim_ms=claim_ms,
            max_age_ms=max_age_ms,
            interval_ms=interval_ms,
        ),
        watcher=watcher,
    )


def start_cluster(data: Path) -> PipelineCluster:
    return PipelineCluster(start_headwater(data, environment=ENVIRONMENT), data)


def table_rows(place: ClusterStores, topic: StoredTopic) -> list[Row]:
    """A table's records in order, duplicates included."""
    table = place.tables.table(topic)
    scanned = table.catalog.load_table(table.name).scan().to_arrow().to_pylist()
    rows = [
        Row(
            each["partition"],
            each["offset"],
            round(each["timestamp"].timestamp() * 1000),
            each["key"],
            each["value"],
            tuple((header["key"], header["value"]) for header in each["headers"]),
        )
        for each in scanned
    ]
    return sorted(rows, key=lambda row: row[:2])


def _consume(consumer: Consumer, topic: str, partition: int) -> list[Row]:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 20)
    rows: list[Row] = []
    if low == high:
        return rows
    consumer.assign([TopicPartition(topic, partition, low)])
    deadline = time.monotonic() + 40
    position = low
    while position < high:
        assert time.monotonic() < deadline, f"{topic}-{partition}: read to {position} of {high}"
        message = consumer.poll(0.5)
        if message is None:
            reached = consumer.position([TopicPartition(topic, partition)])[0].offset
            position = max(position, reached)
            continue
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            continue
        headers: Any = message.headers() or ()
        offset: Any = message.offset()
        row = Row(
            partition,
            offset,
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple((key.encode(), value) for key, value in headers),
        )
        rows.append(row)
        position = row.offset + 1
    consumer.unassign()
    return rows
