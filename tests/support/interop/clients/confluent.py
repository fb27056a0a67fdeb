"""confluent-kafka, the Python binding of librdkafka."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.support.interop.records import Codec, Feature, InteropRecord, Received


class Confluent:
    name = "confluent-kafka"
    sends: ClassVar = frozenset(Feature)
    reads: ClassVar = frozenset(Feature)
    chooses_partitions = True

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[InteropRecord],
        *,
        codec: Codec = "none",
        partition: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "linger.ms": 5,
                "message.timeout.ms": 30_000,
                **(settings or {}),
            }
        )
        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp=record.timestamp_ms or 0,
                on_delivery=delivered,
            )
        assert producer.flush(30) == 0, "not every record was answered in time"
        assert not failures, failures

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "not-used",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            messages: list[Any] = []
            while len(messages) < count:
                came = consumer.consume(count - len(messages), timeout=20)
                assert came, f"{count} records asked for, {len(messages)} came"
                messages += came
        finally:
            consumer.close()
        return [_parse(message) for message in messages]


def _parse(message: Any) -> Received:
    assert message.error() is None, message.error()
    record = InteropRecord(message.value(), message.key(), tuple(message.headers() or ()))
    return Received(message.offset(), message.timestamp()[1], record)
