"""Bad input, order and back-pressure, over real sockets."""

import asyncio
import logging
import struct
from typing import Any

import pytest

from headwater.broker.handlers import metadata
from headwater.broker.network.server import listen
from headwater.errors import ConfigurationError
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    SESSIONLESS,
    RunningBroker,
    WireClient,
    batch,
    fetch_fields,
    produce_fields,
    request_frame,
    running_broker,
    still_serves,
)
from tests.support.waiting import eventually


async def send_raw(broker: RunningBroker, data: bytes) -> WireClient:
    client = await broker.connect()
    client.writer.write(data)
    await client.writer.drain()
    return client


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -1), "-1 bytes"),
        (struct.pack(">i", 0), "0 bytes"),
        (struct.pack(">i", 2**31 - 1), "2147483647 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (struct.pack(">ih", 2, 18), "no header"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "API key 999"),
        (struct.pack(">ihhih", 10, 3, 99, 1, -1), "Metadata version 99"),
        (struct.pack(">ihhih", 10, 0, 2, 1, -1), "Produce version 2"),
        (struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1), "API 3 version 1"),
        (struct.pack(">ihhihi", 14, 3, 1, 1, -1, -7), "API 3 version 1"),
        (struct.pack(">ihhihbI", 15, 3, 9, 1, -1, 0, 0xFFFFFFFF), "API 3 version 9"),
        (struct.pack(">ihhih", 10, 3, 1, 1, 500), "API 3 version 1"),
        (struct.pack(">i", 40) + bytes(range(40)), "not served"),
    ],
)
async def test_bad_frame_closes_its_connection_with_one_reason_and_no_other(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    bystander = await broker.connect()
    caplog.set_level(logging.WARNING)
    client = await send_raw(broker, data)
    assert await client.is_closed()
    (record,) = (each for each in caplog.records if each.message == "Closing a connection")
    assert reason in vars(record)["reason"]
    assert (await bystander.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    await client.close()
    await bystander.close()


async def test_frame_cut_short_is_dropped_in_silence(broker: RunningBroker) -> None:
    client = await send_raw(broker, request_frame(ApiKey.API_VERSIONS, 0, 1)[:-2])
    await client.close()
    await still_serves(broker)


async def test_frame_that_arrives_byte_by_byte_is_answered(broker: RunningBroker) -> None:
    client = await broker.connect()
    for byte in request_frame(ApiKey.API_VERSIONS, 0, 7):
        client.writer.write(bytes([byte]))
        await client.writer.drain()
    assert (await client.receive(ApiKey.API_VERSIONS, 0))[0] == 7
    await client.close()


async def test_length_alone_reserves_no_memory(broker: RunningBroker) -> None:
    client = await send_raw(broker, struct.pack(">i", 100 * 1024 * 1024) + b"x" * 1000)
    await still_serves(broker)
    assert max(one._buffer.capacity for one in broker.server._connections) == 1004
    await client.close()


async def test_buffer_shrinks_after_a_large_frame(broker: RunningBroker) -> None:
    await broker.create_topic("t", 1, max_message_bytes="10000000")
    client = await broker.connect()
    response = await client.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"x" * 5_000_000)))
    assert response.responses[0].partition_responses[0].error_code == 0
    assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    (connection,) = broker.server._connections
    assert connection._buffer.capacity == 0
    await client.close()


async def test_unknown_version_of_api_versions_gets_35_and_the_ranges_in_version_0(
    broker: RunningBroker,
) -> None:
    client = await send_raw(broker, struct.pack(">ihhih", 10, 18, 99, 5, -1))
    correlation, response = await client.receive(ApiKey.API_VERSIONS, 0)
    assert correlation == 5
    assert response.error_code == Code.UNSUPPORTED_VERSION
    assert [(k.min_version, k.max_version) for k in response.api_keys if k.api_key == 18] == [
        (0, 4)
    ]
    await client.close()


async def test_bytes_after_a_request_are_let_be(broker: RunningBroker) -> None:
    """librdkafka's Metadata request for all topics ends three bytes before its frame."""
    frame = bytes.fromhex("000000190003000d00000003000772646b61666b6100000000 00010000")
    client = await send_raw(broker, frame)
    assert (await client.receive(ApiKey.METADATA, 13))[0] == 3
    await client.close()


async def test_pipelined_requests_are_answered_in_order(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    kinds = [(18, 0, {}), (0, 9, produce_fields("t", batch(b"a"))), (3, 1, {"topics": None})] * 10
    sent = [await client.send(api, version, **fields) for api, version, fields in kinds]
    got = [(await client.receive(api, version))[0] for api, version, _ in kinds]
    assert got == sent
    await client.close()


async def test_pipelined_produces_land_in_order_of_arrival(broker: RunningBroker) -> None:
    """The first names a topic that only the store knows; the others must not overtake it."""
    await broker.create_topic("t")
    client = await broker.connect()
    for number in range(20):
        await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"%d" % number)))
    offsets = [
        (await client.receive(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[0].base_offset
        for _ in range(20)
    ]
    assert offsets == list(range(20))
    await client.close()


async def test_long_poll_holds_up_its_own_connection_and_no_other(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    waiting = await broker.connect()
    await waiting.send(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=30_000), **SESSIONLESS)
    await waiting.send(ApiKey.API_VERSIONS, 0)
    await still_serves(broker)
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    assert (await waiting.receive(ApiKey.FETCH, 11))[1].responses[0].partitions[0].records
    assert (await waiting.receive(ApiKey.API_VERSIONS, 0))[1].error_code == 0
    await waiting.close()


async def test_half_closed_client_gets_its_answers(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    client.writer.write_eof()
    assert (await client.receive(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[
        0
    ].error_code == 0
    assert await client.is_closed()
    await client.close()


async def test_what_a_client_that_has_gone_had_queued_is_not_done(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    await client.send(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=200), **SESSIONLESS)
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    await asyncio.sleep(0.05)
    client.writer.write_eof()
    assert (await client.receive(ApiKey.FETCH, 11))[1].responses[0].partitions[0].error_code == 0
    assert await client.is_closed()
    await client.close()
    fetched = await broker.call(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=0), **SESSIONLESS)
    assert fetched.responses[0].partitions[0].high_watermark == 0


async def test_what_a_client_that_has_gone_wants_no_answer_to_is_done(
    broker: RunningBroker,
) -> None:
    await broker.create_topic("t", compression_type="zstd")
    client = await broker.connect()
    for number in range(5):  # each has to be decoded, so that the next one waits
        data = batch(b"%d" % number * 2000, codec=1)
        await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", data, acks=0))
    client.writer.write_eof()
    assert await client.is_closed()
    await client.close()
    fetched = await broker.call(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=0), **SESSIONLESS)
    assert fetched.responses[0].partitions[0].high_watermark == 5


async def test_reset_in_a_long_poll_leaves_nothing_behind(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    await client.send(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=30_000), **SESSIONLESS)
    await still_serves(broker)
    client.writer.transport.abort()
    await eventually(lambda: not broker.server.connections)
    await still_serves(broker)


async def test_handler_that_fails_still_answers_in_its_own_error_fields(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(metadata, "_view", explode)
    await broker.create_topic("t")
    response = await broker.call(ApiKey.METADATA, 1, topics=[{"name": "t"}])
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("t", Code.UNKNOWN_SERVER_ERROR)
    ]
    assert "boom" in caplog.text
    await still_serves(broker)


async def test_stop_lets_requests_under_way_finish() -> None:
    async with running_broker() as broker:
        await broker.create_topic("t")
        client = await broker.connect()
        await client.send(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=300), **SESSIONLESS)
        await asyncio.sleep(0.05)
        stopping = asyncio.ensure_future(broker.server.stop())
        assert (await client.receive(ApiKey.FETCH, 11))[1].error_code == 0
        assert await client.is_closed()
        await stopping
        await client.close()


def test_port_in_use_is_one_line() -> None:
    first = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    with pytest.raises(ConfigurationError, match=f"port {port} on 127.0.0.1 is in use"):
        listen("127.0.0.1", port)
    first.close()


def many_names(count: int) -> dict[str, Any]:
    return {"topics": [{"name": f"n{number:06}"} for number in range(count)]}


async def test_large_requests_are_answered_in_their_order(broker: RunningBroker) -> None:
    """Parsed and answered in a thread, they hold back what is behind them."""
    client = await broker.connect()
    asked = many_names(40_000) | {"allow_auto_topic_creation": False}
    sent = [
        await client.send(ApiKey.METADATA, 4, **asked),
        await client.send(ApiKey.API_VERSIONS, 0),
    ]
    sent += [
        await client.send(ApiKey.METADATA, 4, **asked),
        await client.send(ApiKey.API_VERSIONS, 0),
    ]
    for correlation, api, version in zip(sent, (3, 18, 3, 18), (4, 0, 4, 0), strict=True):
        got, reply = await client.receive(api, version)
        assert got == correlation
        if api == 3:
            assert [one.name for one in reply.topics] == [one["name"] for one in asked["topics"]]
            assert {int(one.error_code) for one in reply.topics} == {
                Code.UNKNOWN_TOPIC_OR_PARTITION
            }
    await client.close()


async def test_a_large_malformed_request_closes_its_connection(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.connect()
    body = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i", 2**31 - 1) + b"\0" * 300_000
    client.writer.write(struct.pack(">i", len(body)) + body)
    assert await client.is_closed()
    assert "length 2147483647 of topics does not fit" in vars(caplog.records[-1])["reason"]
    await client.close()
    await still_serves(broker)


async def test_a_large_request_that_fails_gets_an_error_for_each_topic(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(metadata, "_view", explode)
    response = await broker.call(ApiKey.METADATA, 1, **many_names(40_000))
    assert [int(topic.error_code) for topic in response.topics] == [
        Code.UNKNOWN_SERVER_ERROR
    ] * 40_000


async def test_requests_stay_bytes_until_their_turn(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Parsed, 3 bytes of an empty topic take over a hundred. What is in front is answered."""
    await broker.create_topic("t")
    client = await broker.connect()
    await client.send(ApiKey.FETCH, 11, **fetch_fields("t", 0, max_wait=1_000), **SESSIONLESS)
    for _ in range(3):
        await client.send(ApiKey.METADATA, 4, **many_names(1_000), allow_auto_topic_creation=False)
    body = struct.pack(">hhih", 3, 4, 1, -1) + struct.pack(">i", 2**31 - 1) + b"\0" * 2_000
    client.writer.write(struct.pack(">i", len(body)) + body)
    await asyncio.sleep(0.1)
    (connection,) = broker.server._connections
    waiting = [request.body for request in connection._backlog.waiting]
    assert [type(body) for body in waiting] == [bytes] * 4
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"a")))
    await client.receive(ApiKey.FETCH, 11)
    for _ in range(3):
        assert len((await client.receive(ApiKey.METADATA, 4))[1].topics) == 1_000
    assert await client.is_closed()
    assert "of topics does not fit" in vars(caplog.records[-1])["reason"]
    await client.close()
