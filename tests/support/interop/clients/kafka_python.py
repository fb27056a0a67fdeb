"""kafka-python, the client in pure Python."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tests.support.interop.records import Codec, Feature, InteropRecord, Received

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it reads its own files in a deprecated way when imported
    import kafka
    import kafka.admin


class KafkaPython:
    name = "kafka-python"
    sends: ClassVar = frozenset(Feature) - {Feature.NULL_HEADERS}
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
        options = {name.replace(".", "_"): value for name, value in (settings or {}).items()}
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
            max_request_size=2_000_000,
            **options,
        )
        try:
            answers = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            for answer in answers:
                answer.get(timeout=60)
        finally:
            producer.close(timeout=10)

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="none",
            enable_auto_commit=False,
            consumer_timeout_ms=20_000,
        )
        try:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            received = [_parse(message) for _, message in zip(range(count), consumer, strict=False)]
        finally:
            consumer.close()
        assert len(received) == count, f"{count} records asked for, {len(received)} came"
        return received


def _parse(message: Any) -> Received:
    record = InteropRecord(message.value, message.key, tuple(message.headers))
    return Received(message.offset, message.timestamp, record)
