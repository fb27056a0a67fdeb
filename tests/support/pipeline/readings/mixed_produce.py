"""Producing blocks of records: whole batches over the bare protocol, and through librdkafka."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Producer
from crc32c import crc32c

from bench.clients.wire import BenchConnection, parse
from headwater.wire.batches.batch import CRC_START, HEADER
from headwater.wire.batches.codecs import Codec
from headwater.wire.columnar import encode
from tests.support.broker.running import request_frame
from tests.support.pipeline.readings.mixed import RecordBlock

PRODUCE: Final = (0, 9)
INIT_PRODUCER_ID: Final = (22, 4)
IN_FLIGHT: Final = 64
CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
NAMES: Final = {codec: codec.name.lower() for codec in CODECS}


@dataclass(frozen=True, slots=True)
class Written:
    """A block that was written to a partition from offset ``base`` on."""

    partition: int
    base: int
    block: RecordBlock

    def table(self) -> Any:
        """Its columns with the offsets that it got."""
        rows = self.block.records()
        offsets = pa.array(rows.column("offset").to_numpy() + self.base)
        table = pa.Table.from_batches([rows])
        return table.set_column(0, rows.schema.field("offset"), offsets)


class WireProducer:
    """An idempotent producer of ready-made batches; some of them are sent twice, as retries are."""

    def __init__(
        self, connection: BenchConnection, topic: str, producer_id: int, epoch: int
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._id = (producer_id, epoch)
        self._sequences: dict[int, int] = {}
        self._number = 0

    async def send(self, partition: int, block: RecordBlock, *, codec: Codec, size: int) -> Written:
        """Append a block in batches of about ``size`` bytes; returns where it stands.

        Nobody else writes to the partition meanwhile.
        """
        batches = encode(block.records(), 0, block.rows, batch_bytes=size, codec=codec)
        waiting: deque[tuple[int, asyncio.Future[Any]]] = deque()
        bases: list[int] = []
        first = 0
        for number, batch in enumerate(batches):
            sealed, count = self._sealed(batch, partition)
            frame = self._frame(partition, sealed)
            for _ in range(2 if number % 7 == 3 else 1):
                waiting.append((first, self._connection.send(frame)))
            first += count
            while len(waiting) >= IN_FLIGHT:
                bases.append(await _answered(*waiting.popleft()))
        bases += [await _answered(*each) for each in waiting]
        assert len(set(bases)) == 1, f"a block was torn apart: it begins at each of {set(bases)}"
        return Written(partition, bases[0], block)

    def _sealed(self, batch: memoryview | bytes, partition: int) -> tuple[bytearray, int]:
        """A batch as this producer's next one, and its number of records."""
        data = bytearray(batch)
        fields = list(HEADER.unpack_from(data))
        sequence = self._sequences.get(partition, 0)
        fields[0], fields[9:12] = 0, [*self._id, sequence]
        HEADER.pack_into(data, 0, *fields)
        data[17:21] = crc32c(memoryview(data)[CRC_START:]).to_bytes(4, "big")
        self._sequences[partition] = sequence + fields[12]
        return data, fields[12]

    def _frame(self, partition: int, records: bytearray) -> bytes:
        self._number += 1
        wanted = {"index": partition, "records": bytes(records)}
        return request_frame(
            *PRODUCE,
            self._number,
            transactional_id=None,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": self._topic, "partition_data": [wanted]}],
        )


async def _answered(first: int, answer: "asyncio.Future[Any]") -> int:
    """Where a block begins, by the place that one of its batches got."""
    frame, _ = await answer
    (topic,) = parse(*PRODUCE, frame).responses
    (place,) = topic.partition_responses
    assert place.error_code == 0, place
    return int(place.base_offset) - first


@asynccontextmanager
async def wire_producer(bootstrap: str, topic: str) -> AsyncIterator[WireProducer]:
    connection = await BenchConnection.open(bootstrap)
    try:
        made = await connection.call(
            *INIT_PRODUCER_ID,
            transactional_id=None,
            transaction_timeout=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        yield WireProducer(connection, topic, made.producer_id, made.producer_epoch)
    finally:
        connection.close()


def produce_by_librdkafka(
    bootstrap: str, topic: str, partition: int, base: int, block: RecordBlock, codec: Codec
) -> Written:
    """Append a block record by record, as applications do; ``base`` is where the log ends."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": NAMES[codec],
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 60_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for row in block.records().to_pylist():
        headers: Sequence[Any] = [(each["key"].decode(), each["value"]) for each in row["headers"]]
        producer.produce(
            topic,
            value=row["value"],
            key=row["key"],
            headers=list(headers) or None,
            partition=partition,
            timestamp=round(row["timestamp"].timestamp() * 1000),
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    return Written(partition, base, block)
