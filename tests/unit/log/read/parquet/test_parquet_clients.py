"""Real clients read compacted ranges with gaps: in the middle, at the end, and nothing but."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from headwater.clock import SystemClock
from headwater.log.settings import LogSettings
from headwater.wire.batches.batch import split_batches
from headwater.wire.batches.records import Record, encode_batch
from tests.support.broker.running import running_broker
from tests.support.log.compaction import StepwiseCompactor
from tests.support.log.harness import memory_stores, running_engine

END = 600
DROPPED = frozenset([*range(90, 150), 153, *range(180, 400)])
KEPT = [offset for offset in range(END) if offset not in DROPPED]
STARTS = [0, 100, 153, 200, 299, 399, 599]
"""Offset 200 is in a range without records, the others around are in files with gaps."""


@pytest.fixture
async def address() -> AsyncIterator[str]:
    """A broker whose one topic is in three Parquet files, the second empty, and a WAL object."""
    meta, objects = memory_stores()
    settings = LogSettings(inline_bytes=0, merge_fan_in=1000)
    async with running_engine(meta, objects, settings=settings) as engine:
        topic = await engine.topics.create("t", 1, {})
        for start in range(0, END, 20):
            records = [
                Record(n, 1_700_000_000_000, b"%d" % (start + n), b"v" * 100) for n in range(20)
            ]
            await engine.append(topic, 0, split_batches(encode_batch(records)))
        compactor = StepwiseCompactor(meta, objects, SystemClock(), Random(1))
        for start, end in ((0, 200), (200, 300), (300, 500)):
            await compactor.compact(
                engine, topic, start=start, end=end, dropped=DROPPED, row_group_bytes=4000
            )
        async with running_broker(engine) as broker:
            yield f"127.0.0.1:{broker.port}"


def check(found: list[tuple[int, bytes]], start: int) -> None:
    assert found == [(offset, b"%d" % offset) for offset in KEPT if offset >= start]


def read_with_librdkafka(address: str, start: int, isolation: str) -> list[tuple[int, bytes]]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "none",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.message.max.bytes": 2000,
        }
    )
    consumer.assign([TopicPartition("t", 0, start)])
    found: list[tuple[int, bytes]] = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert key is not None
            found.append((offset, key))
    finally:
        consumer.close()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_librdkafka_passes_over_gaps_to_the_end(address: str, isolation: str) -> None:
    for start in STARTS:
        check(await asyncio.to_thread(read_with_librdkafka, address, start, isolation), start)


async def test_aiokafka_passes_over_gaps_to_the_end(address: str) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    partition = TopicPartition("t", 0)
    for start in STARTS:
        async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, start)
            found: list[tuple[int, bytes]] = []
            while await consumer.position(partition) < END:
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    found += [(message.offset, message.key) for message in messages]
        check(found, start)


def read_with_kafka_python(address: str, start: int) -> list[tuple[int, bytes]]:
    from kafka import KafkaConsumer, TopicPartition

    partition = TopicPartition("t", 0)
    consumer = KafkaConsumer(bootstrap_servers=address)
    consumer.assign([partition])
    consumer.seek(partition, start)
    found: list[tuple[int, bytes]] = []
    while consumer.position(partition) < END:
        for messages in consumer.poll(timeout_ms=200).values():
            found += [(message.offset, message.key) for message in messages]
    consumer.close()
    return found


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
async def test_kafka_python_passes_over_gaps_to_the_end(address: str) -> None:
    for start in STARTS:
        check(await asyncio.to_thread(read_with_kafka_python, address, start), start)
