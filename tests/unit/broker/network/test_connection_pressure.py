"""A connection is not read while its client or the engine does not keep up."""

import asyncio
import struct
from typing import Any, cast

from headwater.broker.settings import BrokerSettings
from headwater.engine import Appended
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    SESSIONLESS,
    RunningBroker,
    batch,
    fetch_fields,
    produce_fields,
    running_broker,
    still_serves,
)
from tests.support.waiting import eventually


async def test_no_request_starts_while_the_client_does_not_read_its_replies(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t", 1, max_message_bytes="10000000")
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 4_000_000)))
    client = await broker.connect()
    transport = cast("asyncio.Transport", client.writer.transport)
    transport.pause_reading()
    count = 20
    big = fetch_fields("t", 0, max_bytes=10_000_000, partition_max_bytes=10_000_000)
    for _ in range(count):
        await client.send(ApiKey.FETCH, 11, **big, **SESSIONLESS)
    for _ in range(3):
        await still_serves(broker)
    answered = broker.services.metrics.requests["Fetch"].value
    assert answered < count
    transport.resume_reading()
    for _ in range(count):
        assert len(await client.receive_frame()) > 4_000_000
    await client.close()


class FullEngine:
    """A real engine that reports full write buffers until the test changes it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.free = asyncio.Event()
        self.appended = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def room(self) -> bool:
        return self.free.is_set()

    async def wait_for_room(self) -> None:
        await self.free.wait()

    def append(self, *arguments: Any) -> "asyncio.Future[Appended]":
        self.appended += 1
        future: asyncio.Future[Appended] = self._inner.append(*arguments)
        return future


async def test_no_produce_request_starts_while_the_engine_is_full(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    engine = FullEngine(broker.engine)
    async with running_broker(engine) as full:
        client = await full.connect()
        await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
        (connection,) = full.server._connections
        await eventually(lambda: not connection._reading)
        assert engine.appended == 0
        engine.free.set()
        assert (await client.receive(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[
            0
        ].error_code == 0
        await client.close()


async def test_no_produce_request_is_read_while_the_engine_is_full(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    async with running_broker(FullEngine(broker.engine)) as full:
        client = await full.connect()
        size = 50_000_000
        client.writer.write(struct.pack(">ihh", size, 0, 9))
        client.writer.write(bytes(size - 4))
        (connection,) = full.server._connections
        await eventually(lambda: not connection._reading)
        assert connection._buffer.capacity < size // 2
        client.writer.transport.abort()


async def test_other_requests_are_served_while_the_engine_is_full(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    async with running_broker(FullEngine(broker.engine)) as full:
        producer, other = await full.connect(), await full.connect()
        await producer.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
        for _ in range(3):
            await other.send(ApiKey.METADATA, 1, topics=[{"name": "t"}])
            assert (await other.receive(ApiKey.METADATA, 1))[1].topics[0].error_code == 0
        await producer.close()
        await other.close()


async def test_a_connection_with_too_many_unanswered_requests_is_not_read() -> None:
    settings = BrokerSettings(stop_timeout_s=0.1, max_queued_requests=4)
    async with running_broker(settings=settings) as broker:
        await broker.create_topic("t")
        client = await broker.connect()
        await client.send(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=30_000), **SESSIONLESS)
        for _ in range(50):
            await client.send(ApiKey.API_VERSIONS, 0)
        (connection,) = broker.server._connections
        await eventually(lambda: not connection._reading)
        await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
        await client.receive(ApiKey.FETCH, 11)
        for _ in range(50):
            await client.receive(ApiKey.API_VERSIONS, 0)
        await client.close()
