"""Reads of producers that wait for a flush are delayed and batched, within bounds."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.network.connection import Connection
from headwater.broker.network.read_coalescing import (
    FINAL_READ_SECONDS,
    LOW_WATERMARK_BYTES,
    MAX_READ_INTERVAL_SECONDS,
    ReadCoalescer,
    ReadSocket,
    next_read_delay,
)
from headwater.engine import Backpressure
from headwater.log.engine import LogEngine
from headwater.log.settings import LogSettings
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    RunningBroker,
    WireClient,
    batch,
    produce_fields,
    running_broker,
)
from tests.support.waiting import eventually

INTERVAL_MS = 400
PAID = LogSettings(flush_interval_ms=INTERVAL_MS, flush_bytes=200_000)


@given(st.floats(-1, 10))
def test_the_last_read_is_scheduled_right_before_the_flush(until_flush: float) -> None:
    reads_before = 0
    while (pause := next_read_delay(until_flush)) is not None:
        assert 0 < pause <= MAX_READ_INTERVAL_SECONDS
        until_flush -= pause
        reads_before += 1
    assert until_flush < 2 * FINAL_READ_SECONDS
    assert not reads_before or until_flush > FINAL_READ_SECONDS / 2
    assert reads_before <= 10 / MAX_READ_INTERVAL_SECONDS + 3


@pytest.fixture(name="reads")
def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each read of a connection."""
    reads: list[int] = []
    real = Connection.buffer_updated

    def counted(connection: Connection, nbytes: int) -> None:
        reads.append(nbytes)
        real(connection, nbytes)

    monkeypatch.setattr(Connection, "buffer_updated", counted)
    return reads


@pytest.fixture(name="delayed")
def record_delayed(monkeypatch: pytest.MonkeyPatch) -> list[ReadSocket]:
    """The sockets whose reads were delayed, each time."""
    delayed: list[ReadSocket] = []
    real = ReadCoalescer.delay_reads

    def counted(coalescer: ReadCoalescer, connection: ReadSocket, eligible_before: int) -> None:
        before = len(coalescer._delayed)
        real(coalescer, connection, eligible_before)
        delayed.extend([connection] * (len(coalescer._delayed) - before))

    monkeypatch.setattr(ReadCoalescer, "delay_reads", counted)
    return delayed


@pytest.fixture(name="paid")
async def run_broker_on_paid_store() -> AsyncIterator[RunningBroker]:
    async with running_broker(log_settings=PAID) as broker:
        yield broker


async def _begin(broker: RunningBroker, topic: str) -> WireClient:
    """A client right after a flush: the next flush is one interval away."""
    client = await broker.connect()
    await client.call(ApiKey.PRODUCE, 9, **produce_fields(topic, batch(b"first")))
    return client


async def _send(client: WireClient, topic: str, count: int) -> None:
    for number in range(count):
        await client.send(ApiKey.PRODUCE, 9, **produce_fields(topic, batch(f"{number}".encode())))
        await asyncio.sleep(0.004)


async def test_requests_that_wait_for_a_flush_are_read_together(
    paid: RunningBroker, reads: list[int], delayed: list[ReadSocket]
) -> None:
    await paid.create_topic("t", headwater_latency="cheap")
    client = await _begin(paid, "t")
    reads.clear()
    await _send(client, "t", 50)
    for number in range(50):
        answer = (await client.receive(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, number + 1)
    assert len(reads) < 25
    assert delayed
    await client.close()


async def test_a_thousand_requests_of_one_client_share_a_flush() -> None:
    """A client that pipelines its requests sends as many until the flush."""
    async with running_broker(log_settings=LogSettings(flush_interval_ms=30_000)) as broker:
        await broker.create_topic("t", headwater_latency="cheap")
        client = await _begin(broker, "t")
        engine = cast("LogEngine", broker.engine)
        flushes = engine._metrics.flushes
        before = flushes.value
        one = batch(b"x" * 1_000)
        for _ in range(1_000):
            await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", one))
        (connection,) = broker.server._connections
        await eventually(lambda: len(connection._backlog.unanswered) == 1_000)
        assert flushes.value == before
        closing = asyncio.create_task(engine.close())  # which flushes
        for number in range(1_000):
            answer = (
                (await client.receive(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[0]
            )
            assert (answer.error_code, answer.base_offset) == (0, number + 1)
        await closing
        assert flushes.value == before + 1
        await client.close()


async def test_a_client_with_many_unanswered_bytes_is_not_read() -> None:
    """Frames that the log has copied do not stay in memory until the reply."""
    settings = LogSettings(flush_interval_ms=INTERVAL_MS, buffer_bytes=400_000)
    async with running_broker(log_settings=settings) as broker:
        await broker.create_topic("t", headwater_latency="cheap", max_message_bytes="20000")
        client = await _begin(broker, "t")
        (connection,) = broker.server._connections
        sent = [batch(b"x" * 10_000), batch(b"x" * 30_000)] * 20
        for one in sent:
            await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", one))
        await eventually(lambda: not connection._reading)
        assert len(connection._backlog.unanswered) < len(sent)
        assert all(request.body is None for request in connection._backlog.unanswered)
        assert broker.services.backpressure.room
        for _ in range(20):
            codes = [
                (await client.receive(ApiKey.PRODUCE, 9))[1]
                .responses[0]
                .partition_responses[0]
                .error_code
                for _ in range(2)
            ]
            assert codes == [Code.NONE, Code.MESSAGE_TOO_LARGE]
        await client.close()


async def test_reads_are_not_delayed_without_a_flush_interval(
    paid: RunningBroker, delayed: list[ReadSocket]
) -> None:
    await paid.create_topic("cheap", headwater_latency="cheap")
    await paid.create_topic("t")
    other = await _begin(paid, "cheap")
    client = await paid.connect()
    delayed.clear()
    for _ in range(10):
        await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    assert not delayed
    await client.close()
    await other.close()


async def test_reads_of_a_client_without_unanswered_requests_are_not_delayed(
    paid: RunningBroker, delayed: list[ReadSocket]
) -> None:
    """A refused request is answered at once."""
    await paid.create_topic("t", headwater_latency="cheap")
    client = await _begin(paid, "t")
    delayed.clear()
    for _ in range(10):
        answer = await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", b"broken"))
        assert answer.responses[0].partition_responses[0].error_code
    assert not delayed
    await client.close()


async def test_reads_resume_with_the_last_reply(paid: RunningBroker) -> None:
    """A full buffer is flushed early."""
    await paid.create_topic("t", headwater_latency="cheap")
    client, other = await _begin(paid, "t"), await paid.connect()
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    await eventually(lambda: bool(paid.server._coalescer._delayed), pause=0.001)
    await other.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * PAID.flush_bytes)))
    for each in (client, other):
        await each.receive(ApiKey.PRODUCE, 9)
        await each.close()
    assert not paid.server._coalescer._delayed


class _Engine:
    """An engine whose next flush is one interval away."""

    def __init__(self) -> None:
        self.inline_eligible_appends = 0
        self.next_flush_at = asyncio.get_running_loop().time() + 0.03


class _Socket:
    def __init__(self) -> None:
        self.wanted: list[int] = []

    def setsockopt(self, _level: int, _option: int, value: int, /) -> None:
        self.wanted.append(value)


async def test_only_reads_of_a_client_that_waits_for_the_flush_are_delayed() -> None:
    engine, waiting, eager = _Engine(), _Socket(), _Socket()
    coalescer = ReadCoalescer(cast("Backpressure", engine))
    coalescer.delay_reads(waiting, engine.inline_eligible_appends)
    before = engine.inline_eligible_appends
    engine.inline_eligible_appends += 1
    coalescer.delay_reads(eager, before)
    assert (waiting.wanted, eager.wanted) == ([LOW_WATERMARK_BYTES], [])
    await eventually(lambda: waiting.wanted == [LOW_WATERMARK_BYTES, 1])


async def test_a_delayed_socket_is_read_at_the_low_watermark(
    paid: RunningBroker, reads: list[int]
) -> None:
    await paid.create_topic("t", headwater_latency="cheap")
    client = await _begin(paid, "t")
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    await asyncio.sleep(0.01)
    reads.clear()
    await client.send(
        ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * (LOW_WATERMARK_BYTES + 1000)))
    )
    await eventually(lambda: sum(reads) >= LOW_WATERMARK_BYTES)
    for _ in range(2):
        await client.receive(ApiKey.PRODUCE, 9)
    await client.close()


async def test_a_client_that_closes_while_it_is_delayed_does_not_affect_others(
    paid: RunningBroker,
) -> None:
    await paid.create_topic("t", headwater_latency="cheap")
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, failed: failures.append(failed))
    clients = [await paid.connect() for _ in range(3)]
    await clients[0].call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"first")))
    for client in clients:
        await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    await eventually(lambda: len(paid.server._coalescer._delayed) == 3, pause=0.001)
    at_once = struct.pack("ii", 1, 0)
    going = clients.pop().writer
    going.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    going.transport.abort()
    await eventually(lambda: paid.server.connections == 2)
    for client in clients:
        await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"b")))
        for _ in range(2):
            answer = (
                (await client.receive(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[0]
            )
            assert answer.error_code == 0
        await client.close()
    assert not failures
