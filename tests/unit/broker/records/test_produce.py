import asyncio
from typing import Any
from uuid import UUID

import pytest

from headwater.engine import Topic
from headwater.errors import KafkaStorageError
from headwater.wire.batches.batch import HEADER, LOG_APPEND_TIME
from headwater.wire.batches.records import Record, decode_batch, encode_batch
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.running import (
    NOW,
    SESSIONLESS,
    RunningBroker,
    batch,
    fetch_fields,
    produce_fields,
)
from tests.support.wire.batches import resealed


async def produce(
    broker: RunningBroker, records: bytes | None, version: int = 9, **more: Any
) -> Any:
    fields = produce_fields(more.pop("topic", "t"), records, **more)
    response = await broker.call(ApiKey.PRODUCE, version, **fields)
    return response.responses[0].partition_responses[0]


async def stored(broker: RunningBroker) -> bytes:
    response = await broker.call(ApiKey.FETCH, 11, **fetch_fields("t", 0), **SESSIONLESS)
    records: bytes = response.responses[0].partitions[0].records
    return records


def spoiled(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


GOOD = batch(b"a")


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (spoiled(GOOD, len(GOOD) - 1, 7), Code.CORRUPT_MESSAGE),
        (GOOD[:40], Code.CORRUPT_MESSAGE),
        (spoiled(GOOD, 16, 1), Code.INVALID_RECORD),
        (b"", Code.INVALID_RECORD),
        (None, Code.INVALID_RECORD),
        (GOOD + GOOD, Code.INVALID_RECORD),
        (batch(b"a", attributes=0x20), Code.INVALID_RECORD),
        (batch(b"a", producer_id=5, producer_epoch=0), Code.INVALID_RECORD),
        (batch(b"x" * 1_100_000), Code.MESSAGE_TOO_LARGE),
        (batch(b"a", timestamp=NOW + 7_200_000), Code.INVALID_TIMESTAMP),
        (batch(b"a", timestamp=2**62), Code.INVALID_TIMESTAMP),
        (
            batch(b"a", attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0),
            Code.INVALID_TXN_STATE,
        ),
    ],
    ids=[
        *("wrong CRC", "cut", "old format", "empty", "null", "two batches", "control batch"),
        *("no sequence", "too large", "in two hours", "year 100 million", "transactional"),
    ],
)
async def test_illegal_records_are_refused_as_in_kafka(
    broker: RunningBroker, records: bytes | None, code: int
) -> None:
    await broker.create_topic("t")
    answer = await produce(broker, records)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert answer.error_message
    assert (await produce(broker, GOOD)).base_offset == 0


async def test_zstd_needs_version_7(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    assert (
        await produce(broker, batch(b"a", codec=4), 6)
    ).error_code == Code.UNSUPPORTED_COMPRESSION_TYPE
    assert (await produce(broker, batch(b"a", codec=4), 7)).error_code == 0


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"acks": 2}, Code.INVALID_REQUIRED_ACKS),
        ({"partition": 9}, Code.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "no"}, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_illegal_requests_are_refused(
    broker: RunningBroker, more: dict[str, Any], code: int
) -> None:
    await broker.create_topic("t")
    assert (await produce(broker, GOOD, **more)).error_code == code


async def test_topic_ids_replace_names_from_version_13(broker: RunningBroker) -> None:
    topic_id = await broker.create_topic("t")
    for wanted, code in ((topic_id, 0), (UUID(int=5), 100)):
        response = await broker.call(
            ApiKey.PRODUCE,
            13,
            transactional_id=None,
            acks=-1,
            timeout=1000,
            topic_data=[{"topic_id": wanted, "partition_data": [{"index": 0, "records": GOOD}]}],
        )
        (topic,) = response.responses
        assert topic.topic_id == wanted
        assert topic.partition_responses[0].error_code == code


async def test_acks_0_gets_no_answer_and_an_error_closes(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    client = await broker.connect()
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("t", GOOD, acks=0))
    assert (await client.call(ApiKey.API_VERSIONS, 0)).error_code == 0
    await client.send(ApiKey.PRODUCE, 9, **produce_fields("no", GOOD, acks=0))
    assert await client.is_closed()
    await client.close()


async def test_log_append_time_gives_records_the_brokers_time(broker: RunningBroker) -> None:
    await broker.create_topic("t", message_timestamp_type="LogAppendTime")
    answer = await produce(broker, batch(b"a", timestamp=1000))
    assert answer.log_append_time.timestamp() * 1000 >= NOW
    (record,) = decode_batch(await stored(broker))
    assert record.timestamp >= NOW


async def test_a_producers_append_time_bit_is_cleared(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    assert (await produce(broker, batch(b"a", attributes=LOG_APPEND_TIME))).error_code == 0
    data = await stored(broker)
    assert not HEADER.unpack_from(data)[5] & LOG_APPEND_TIME
    assert decode_batch(data)[0].timestamp == NOW


async def test_topics_codec_recompresses(broker: RunningBroker) -> None:
    await broker.create_topic("t", compression_type="zstd")
    assert (await produce(broker, batch(b"a" * 1000, codec=1))).error_code == 0
    data = await stored(broker)
    assert HEADER.unpack_from(data)[5] & 7 == 4
    assert decode_batch(data)[0].value == b"a" * 1000


async def test_compacted_topic_needs_keys(broker: RunningBroker) -> None:
    await broker.create_topic("t", cleanup_policy="compact")
    assert (await produce(broker, batch(b"a", keyed=False))).error_code == Code.INVALID_RECORD
    assert (await produce(broker, batch(b"a"))).error_code == 0


async def test_the_reply_names_the_invalid_records(broker: RunningBroker) -> None:
    await broker.create_topic("t", cleanup_policy="compact")
    records = [Record(n, NOW, None if n % 10 == 3 else b"k", b"v") for n in range(100)]
    for version in (7, 8, 11):
        answer = await produce(broker, encode_batch(records), version)
        assert answer.error_code == Code.INVALID_RECORD
        named = [one.batch_index for one in answer.record_errors] if version >= 8 else None
        assert named in (None, list(range(3, 100, 10)))


async def test_malformed_records_are_refused(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    for payload in (b"this is no record at all", bytes(16)):
        data = GOOD[:61] + payload
        data = resealed(data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:])
        assert (await produce(broker, data)).error_code == Code.INVALID_RECORD
    assert (await produce(broker, GOOD)).base_offset == 0


async def test_a_batch_that_is_checked_in_a_thread_is_not_overtaken(broker: RunningBroker) -> None:
    await broker.create_topic("t", compression_type="zstd")
    client = await broker.connect()
    for number in range(6):
        codec = 1 if number % 2 == 0 else 4
        await client.send(
            ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"%d" % number * 2000, codec=codec))
        )
    answers = [(await client.receive(ApiKey.PRODUCE, 9))[1] for _ in range(6)]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in answers]
    assert offsets == list(range(6))
    await client.close()


async def test_retry_of_an_idempotent_batch_gets_its_first_offset(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    options = {"producer_id": 5, "producer_epoch": 0}
    first = await produce(broker, batch(b"a", base_sequence=0, **options))
    await produce(broker, batch(b"b", base_sequence=1, **options))
    again = await produce(broker, batch(b"a", base_sequence=0, **options))
    skipped = await produce(broker, batch(b"c", base_sequence=9, **options))
    assert (first.base_offset, again.base_offset, skipped.error_code) == (
        0,
        0,
        Code.KAFKA_STORAGE_ERROR,
    )


async def test_many_connections_share_one_partition_without_gaps(broker: RunningBroker) -> None:
    await broker.create_topic("t")
    answers = await asyncio.gather(*(produce(broker, GOOD) for _ in range(30)))
    assert sorted(answer.base_offset for answer in answers) == list(range(30))


def sequenced(number: int) -> dict[str, Any]:
    """A batch of an idempotent producer."""
    records = batch(b"%d" % number, producer_id=5, producer_epoch=0, base_sequence=number)
    return produce_fields("t", records)


async def test_a_batch_after_a_rejected_one_is_not_taken_for_the_first(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draining broker serves again when the other brokers are gone."""
    await broker.create_topic("t")
    client = await broker.connect()
    monkeypatch.setattr(broker.services.cluster, "redirects_clients", True)
    answers = [await client.call(ApiKey.PRODUCE, 9, **sequenced(0))]
    monkeypatch.setattr(broker.services.cluster, "redirects_clients", False)
    for number in (1, 0, 1):
        answers.append(await client.call(ApiKey.PRODUCE, 9, **sequenced(number)))
    codes = [answer.responses[0].partition_responses[0].error_code for answer in answers]
    assert codes == [Code.NOT_LEADER_OR_FOLLOWER, Code.KAFKA_STORAGE_ERROR, Code.NONE, Code.NONE]
    await client.close()


async def test_no_request_is_served_after_a_failed_topic_lookup(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await broker.create_topic("t")
    topics = broker.engine.topics
    known = topics.get("t")
    assert known is not None
    answers: list[Any] = [None, known]
    monkeypatch.setattr(topics, "get", lambda _name: answers.pop(0))

    async def fail(_name: str, *, partition: int = 0) -> Topic:
        await asyncio.sleep(0.05)
        raise KafkaStorageError("the store is away")

    monkeypatch.setattr(topics, "find", fail)
    client = await broker.connect()
    for number in range(2):
        await client.send(ApiKey.PRODUCE, 9, **sequenced(number))
    assert await client.is_closed()
    assert answers == [known]
    assert (await broker.engine.offsets(known, 0)).high_watermark == 0
    await client.close()
