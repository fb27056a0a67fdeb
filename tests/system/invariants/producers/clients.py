"""Clients that talk to a broker of their choice and write down every answer, and every lack of one.

An answer that does not come, or a connection that breaks, raises ``Lost``: whether the request
took effect is not known.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Self

from kio.schema.errors import ErrorCode

from headwater.clock import SystemClock
from headwater.wire.batches.batch import batch_sizes
from headwater.wire.batches.records import Record, decode_batch, encode_batch
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import WireClient, fetch_fields, produce_fields
from tests.system.invariants.brokers import ServeProcess
from tests.system.invariants.history import History, Polled, Trimmed

TOPIC = "t"
ANSWER_SECONDS = 3.0
TIMESTAMP = SystemClock().now_ms()

RETRIABLE = {
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
    ErrorCode.kafka_storage_error,
}
"""NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR: ask again, perhaps elsewhere."""

_connections = itertools.count()


class Lost(Exception):
    """Raised where a request's answer did not come, or says to ask again."""


def check(error_code: int) -> None:
    """Raises ``Lost`` where the same request may succeed later; any other error is a finding."""
    if error_code in RETRIABLE:
        raise Lost(error_code)
    assert error_code == 0, error_code


class BrokerConnection:
    """One connection to one broker."""

    def __init__(self, broker: ServeProcess, client: WireClient) -> None:
        self.broker = broker.id
        self.number = next(_connections)
        self._client = client

    @classmethod
    async def open(cls, broker: ServeProcess) -> "BrokerConnection":
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        except (OSError, TimeoutError) as error:
            raise Lost from error
        return cls(broker, WireClient(reader, writer))

    async def call(self, api: int, version: int, **fields: Any) -> Any:
        await self.send(api, version, **fields)
        return await self.receive(api, version)

    async def send(self, api: int, version: int, **fields: Any) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._client.send(api, version, **fields)
        except (OSError, TimeoutError) as error:
            raise Lost from error

    async def receive(self, api: int, version: int) -> Any:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return (await self._client.receive(api, version))[1]
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise Lost from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut the connection, whatever is under way."""
        self._client.writer.transport.abort()

    async def create_topic(self, partitions: int) -> None:
        topic = {
            "name": TOPIC,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        answer = await self.call(
            ApiKey.CREATE_TOPICS, 5, topics=[topic], timeout=10_000, validate_only=False
        )
        assert answer.topics[0].error_code == 0

    async def producer_id(self) -> int:
        answer = await self.call(
            ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=60_000,
            producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
        assert answer.error_code == 0
        return int(answer.producer_id)

    async def send_batch(self, partition: int, data: bytes) -> None:
        await self.send(ApiKey.PRODUCE, 9, **produce_fields(TOPIC, data, partition=partition))

    async def receive_offset(self) -> tuple[int, int]:
        """The answer to the oldest batch that has none: error code and base offset."""
        answer = await self.receive(ApiKey.PRODUCE, 9)
        (partition,) = answer.responses[0].partition_responses
        return int(partition.error_code), int(partition.base_offset)

    async def poll(
        self, history: History, partition: int, offset: int, *, max_bytes: int, max_wait: int = 200
    ) -> Polled:
        invoked = now()
        fields = fetch_fields(
            TOPIC, offset, partition=partition, max_wait=max_wait, partition_max_bytes=max_bytes,
            forgotten_topics_data=[], rack_id="",
        )  # fmt: skip
        answer = await self.call(ApiKey.FETCH, 11, **fields)
        (found,) = answer.responses[0].partitions
        polled = Polled(
            connection=self.number * 1000 + partition,
            broker=self.broker,
            partition=partition,
            asked=offset,
            error=int(found.error_code),
            records=tuple(
                (offset_, value) for offset_, value in records(found.records) if offset_ >= offset
            ),
            high_watermark=int(found.high_watermark),
            log_start=int(found.log_start_offset),
            invoked=invoked,
            completed=now(),
        )
        history.polled.append(polled)
        return polled

    async def bounds(self, partition: int) -> tuple[int, int]:
        """Log start and high watermark, as ListOffsets tells them."""
        found = []
        for timestamp in (-2, -1):
            answer = await self.call(
                ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0,
                topics=[{"name": TOPIC, "partitions": [
                    {"partition_index": partition, "current_leader_epoch": -1,
                     "timestamp": timestamp}]}],
            )  # fmt: skip
            (one,) = answer.topics[0].partitions
            check(one.error_code)
            found.append(int(one.offset))
        return found[0], found[1]

    async def trim(self, history: History, partition: int, before: int) -> None:
        invoked = now()
        log_start = None
        try:
            answer = await self.call(
                ApiKey.DELETE_RECORDS, 1, timeout=2_000,
                topics=[{"name": TOPIC, "partitions": [
                    {"partition_index": partition, "offset": before}]}],
            )  # fmt: skip
            (one,) = answer.topics[0].partitions
            log_start = int(one.low_watermark) if one.error_code == 0 else None
        finally:
            history.trimmed.append(Trimmed(partition, before, log_start, invoked))


def now() -> float:
    return asyncio.get_running_loop().time()


def records(data: bytes | None) -> list[tuple[int, bytes]]:
    """Offsets and values of whole batches; raises where the last one is cut."""
    found = []
    view = memoryview(data or b"")
    for position, size, _ in batch_sizes(view):
        found += [
            (one.offset, bytes(one.value or b""))
            for one in decode_batch(view[position : position + size])
        ]
    return found


def encode(values: Sequence[bytes], *, producer_id: int = -1, sequence: int = -1) -> bytes:
    return encode_batch(
        [Record(index, TIMESTAMP, None, value) for index, value in enumerate(values)],
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
    )


Choose = Callable[[], ServeProcess]
"""Says which broker to go to next."""
