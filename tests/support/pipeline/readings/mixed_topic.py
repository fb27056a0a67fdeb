"""A topic of mixed records with gaps in its offsets, and what it must hold."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition

from headwater.pipeline.spark.runner import Runner
from headwater.wire.batches.codecs import Codec
from tests.support.pipeline.cluster import PipelineCluster, make_compactor
from tests.support.pipeline.readings.columns import in_order
from tests.support.pipeline.readings.mixed import BINARY_KEYS, COLUMNS, TEXT_KEYS, RecordBlock
from tests.support.pipeline.readings.mixed_produce import (
    CODECS,
    Written,
    produce_by_librdkafka,
    wire_producer,
)

PARTITIONS: Final = 5
GAPS: Final = 1
"""The partition whose first records were compacted by their keys."""
TRIMMED: Final = 2
"""The partition whose first records were deleted."""
BINARY: Final = 4
"""The partition with header keys that are no text; a twentieth of the records."""

BLOCK_ROWS: Final = 20_000
BATCH_BYTES: Final = (1_000, 16_000, 60_000, 500_000)


@dataclass(slots=True)
class MixedTopic:
    """A topic and everything that was written to it."""

    cluster: PipelineCluster
    name: str
    written: list[Written] = field(default_factory=list)
    log_start: dict[int, int] = field(default_factory=dict)

    def expected(self, partition: int) -> Iterator[Any]:
        """The columns that the partition must have, block by block."""
        for each in self.written:
            if each.partition != partition:
                continue
            table = each.table()
            if each.block.keys:
                table = _last_of_each_key(table)
            offsets = table.column("offset")
            kept = table.filter(pc.greater_equal(offsets, self.log_start.get(partition, 0)))
            if kept.num_rows:
                yield in_order(kept, COLUMNS)


def _last_of_each_key(table: Any) -> Any:
    last = table.select(["key", "offset"]).group_by("key").aggregate([("offset", "max")])
    return table.filter(pc.is_in(table.column("offset"), last.column("offset_max")))


async def fill(cluster: PipelineCluster, records: int, runner: Runner) -> MixedTopic:
    """A new topic of a few more records than this."""
    name = cluster.create_topic(partitions=PARTITIONS, configs={"cleanup.policy": "compact"})
    topic = MixedTopic(cluster, name)
    seeds = count(1)
    await _leave_gaps(topic, records // 20, next(seeds), runner)
    shares = {BINARY: records // 20, **dict.fromkeys(range(4), records * 24 // 100)}
    plans = {
        partition: [(block, _form(block)) for block in _blocks(rows, partition, seeds)]
        for partition, rows in shares.items()
    }

    async def send(partition: int) -> None:
        async with wire_producer(cluster.bootstrap, name) as producer:
            for block, (codec, size) in plans[partition]:
                topic.written.append(await producer.send(partition, block, codec=codec, size=size))

    await asyncio.gather(*(send(partition) for partition in plans))
    for partition, codec in enumerate(CODECS):
        place = partition % 4
        block = RecordBlock(min(records // 100, BLOCK_ROWS), next(seeds), alphabet=8)
        base = end_of(cluster, name, place)
        topic.written.append(
            produce_by_librdkafka(cluster.bootstrap, name, place, base, block, codec)
        )
    topic.log_start[TRIMMED] = records // 100 + 7
    cluster.delete_records(name, TRIMMED, topic.log_start[TRIMMED])
    topic.written.sort(key=lambda each: (each.partition, each.base))
    return topic


def _blocks(rows: int, partition: int, seeds: Iterator[int]) -> Iterator[RecordBlock]:
    keys = BINARY_KEYS if partition == BINARY else TEXT_KEYS
    for first in range(0, rows, BLOCK_ROWS):
        seed = next(seeds)
        yield RecordBlock(min(BLOCK_ROWS, rows - first), seed, keys, alphabet=(4, 256)[seed % 2])


def _form(block: RecordBlock) -> tuple[Codec, int]:
    return CODECS[block.seed % 5], BATCH_BYTES[block.seed % 4]


async def _leave_gaps(topic: MixedTopic, rows: int, seed: int, runner: Runner) -> None:
    """Write keyed records, keep the last of each key, and go on as an ordinary topic."""
    block = RecordBlock(rows, seed, keys=max(1, rows // 4))
    async with wire_producer(topic.cluster.bootstrap, topic.name) as producer:
        topic.written.append(await producer.send(GAPS, block, codec=Codec.ZSTD, size=30_000))
    async with topic.cluster.open() as place:
        compactor = make_compactor(place, runner=runner, file_bytes=2**20)
        try:
            for work in (compactor.compact, compactor.clean):
                summary = await work([topic.name])
                assert not summary.failures
        finally:
            compactor.close()
    topic.cluster.configure(topic.name, {"cleanup.policy": "delete"})


def end_of(cluster: PipelineCluster, topic: str, partition: int) -> int:
    """Where the partition's log ends."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "ends"})
    try:
        high: int = consumer.get_watermark_offsets(TopicPartition(topic, partition), 20)[1]
    finally:
        consumer.close()
    return high
