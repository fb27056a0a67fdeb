"""Short work of librdkafka's clients, as plain functions for a thread."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SECONDS = 30.0


def produce(
    bootstrap: str, topic: str, partitions: int, values: list[bytes], **settings: Any
) -> None:
    """Send values to all partitions in turn and wait until they are acknowledged."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=number % partitions,
            on_delivery=lambda error, _: failed.append(str(error)) if error is not None else None,
        )
    assert producer.flush(SECONDS) == 0
    assert not failed, failed[:3]


def read(
    bootstrap: str, topic: str, partitions: int, count: int, **settings: Any
) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of the first ``count`` records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[tuple[int, int, bytes]] = []
    until = time.monotonic() + SECONDS
    try:
        while len(found) < count and time.monotonic() < until:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                raise KafkaException(error)
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            found.append((partition, offset, value))
    finally:
        consumer.close()
    return found
