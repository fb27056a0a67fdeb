"""Real Python clients against a broker on memory stores; Java ones: tests/system/clients."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.support.broker.running import RunningBroker

COUNT = 50


def exchange_with_librdkafka(address: str, codec: str) -> list[Any]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": address, "compression.type": codec})
    for number in range(COUNT):
        value = None if number % 10 == 0 else b"value %d" % number * 10
        producer.produce("t", value, b"%d" % number, headers=[("h", b"1")], partition=0)
    assert producer.flush(10) == 0
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none"})
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[Any] = []
    while len(found) < COUNT:
        found += consumer.consume(COUNT, 5)
    consumer.close()
    return [(m.offset(), m.key(), m.value(), m.headers()) for m in found]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_librdkafka_reads_what_it_wrote(broker: RunningBroker, codec: str) -> None:
    await broker.create_topic("t")
    found = await asyncio.to_thread(exchange_with_librdkafka, f"127.0.0.1:{broker.port}", codec)
    assert found == [
        (n, b"%d" % n, None if n % 10 == 0 else b"value %d" % n * 10, [("h", b"1")])
        for n in range(COUNT)
    ]


async def test_librdkafka_gets_errors_for_the_invalid_records_only(
    broker: RunningBroker,
) -> None:
    from confluent_kafka import Producer

    def produce() -> Counter[str]:
        address = f"127.0.0.1:{broker.port}"
        producer = Producer({"bootstrap.servers": address, "linger.ms": 1_000})
        outcomes: Counter[str] = Counter()
        for number in range(100):
            key = None if number % 10 == 3 else b"k"
            producer.produce(
                "t",
                b"v",
                key,
                on_delivery=lambda error, _: outcomes.update([error.name() if error else ""]),
            )
        assert producer.flush(10) == 0
        return outcomes

    await broker.create_topic("t", cleanup_policy="compact")
    outcomes = await asyncio.to_thread(produce)
    assert outcomes == {"INVALID_RECORD": 10, "_INVALID_DIFFERENT_RECORD": 90}


async def test_librdkafka_lists_all_topics(broker: RunningBroker) -> None:
    from confluent_kafka.admin import AdminClient

    await broker.create_topic("t", 3)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{broker.port}"})
    for _ in range(2):
        listed = await asyncio.to_thread(admin.list_topics, timeout=5)
    assert len(listed.topics["t"].partitions) == 3


async def test_aiokafka_reads_what_it_wrote(broker: RunningBroker) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    address = f"127.0.0.1:{broker.port}"
    async with AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True) as producer:
        for number in range(COUNT):
            await producer.send("t", b"%d" % number)
        await producer.flush()
    found: list[bytes] = []
    consumer = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition("t", 0)])
        while len(found) < COUNT:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += [record.value for record in records]
    assert found == [b"%d" % number for number in range(COUNT)]


def exchange_with_kafka_python(address: str) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=address)
    for number in range(COUNT):
        producer.send("t", b"%d" % number)
    producer.flush(10)
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        group_id=None,
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    consumer.assign([TopicPartition("t", 0)])
    found = [next(consumer).value for _ in range(COUNT)]
    consumer.close()
    return found


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
async def test_kafka_python_reads_what_it_wrote(broker: RunningBroker) -> None:
    found = await asyncio.to_thread(exchange_with_kafka_python, f"127.0.0.1:{broker.port}")
    assert found == [b"%d" % number for number in range(COUNT)]
