"""aiokafka, the asyncio client."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.support.interop.records import Codec, Feature, InteropRecord, Received


class Aiokafka:
    name = "aiokafka"
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
        options = {name.replace(".", "_"): value for name, value in (settings or {}).items()}

        async def send_all() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                linger_ms=5,
                max_request_size=2_000_000,
                **options,
            )
            await producer.start()
            try:
                answers = [
                    await producer.send(
                        topic,
                        record.value,
                        key=record.key,
                        partition=partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                await asyncio.gather(*answers)
            finally:
                await producer.stop()

        asyncio.run(asyncio.wait_for(send_all(), 60))

    def consume(
        self, bootstrap: str, topic: str, *, count: int, partition: int = 0, offset: int = 0
    ) -> list[Received]:
        async def read() -> list[Received]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap, auto_offset_reset="none", enable_auto_commit=False
            )
            await consumer.start()
            try:
                place = TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, offset)
                return [_parse(await consumer.getone()) for _ in range(count)]
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(read(), 60))


def _parse(message: object) -> Received:
    record = InteropRecord(message.value, message.key, tuple(message.headers))  # type: ignore[attr-defined]
    return Received(message.offset, message.timestamp, record)  # type: ignore[attr-defined]
