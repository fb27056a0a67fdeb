"""Malformed records are refused before they are acknowledged, and delay no other client."""

import struct
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import cramjam
import pytest

from headwater.wire.batches.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC
from headwater.wire.batches.codecs import Codec, compress
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.wire.varint import encode_signed
from tests.support.broker.running import NOW, produce_fields, request_frame
from tests.support.wire.batches import resealed
from tests.system.hostile.harness import Target, read_reply

MIB = 1 << 20
COMPACTED = {"cleanup.policy": "compact"}
RECOMPRESSED = {"compression.type": "lz4"}


def batch_of(payload: bytes, count: int, codec: int) -> bytes:
    """A batch with a valid header and CRC, with any content."""
    length = HEADER_SIZE + len(payload) - LENGTH_OVERHEAD
    header = HEADER.pack(0, length, -1, MAGIC, 0, codec, count - 1, NOW, NOW, -1, -1, -1, count)
    return resealed(header + payload)


def tiny_records(count: int) -> bytes:
    """The last record is 10 ms later than the others."""
    parts = []
    for number in range(count):
        delta = encode_signed(10 if number == count - 1 else 0)
        body = b"\0" + delta + encode_signed(number) + b"\0\0\0"
        parts.append(encode_signed(len(body)) + body)
    return b"".join(parts)


def one_record(size: int) -> bytes:
    """A record with a value of this many zero bytes."""
    body = b"\0\0\0" + encode_signed(1) + b"k" + encode_signed(size) + bytes(size) + b"\0"
    return encode_signed(len(body)) + body


def zstd(payload: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(payload))


NO_RECORDS: dict[str, Callable[[], bytes]] = {
    "text": lambda: batch_of(b"this is no record at all", 1, 0),
    "2^31-1 records in 16 bytes": lambda: batch_of(bytes(16), 2**31 - 1, 0),
    "gzip, text": lambda: batch_of(compress(Codec.GZIP, b"this is no record"), 1, 1),
    "zstd, 2^20 records in 16 bytes": lambda: batch_of(zstd(bytes(16)), 2**20, 4),
    "lz4, no frame": lambda: batch_of(b"no frame at all", 1, 3),
    "zstd, 256 MiB of zeros": lambda: batch_of(zstd(bytes(256 * MIB)), 2**20, 4),
}


async def topic(broker: Target, configs: dict[str, str] | None = None) -> str:
    name = uuid4().hex
    await broker.create_topic(name, configs=configs)
    return name


async def produce(broker: Target, name: str, batch: bytes) -> Any:
    answer = await broker.attack(request_frame(ApiKey.PRODUCE, 9, 1, **produce_fields(name, batch)))
    assert answer is not None
    return read_reply(answer, ApiKey.PRODUCE, 9).responses[0].partition_responses[0]


async def end_of(broker: Target, name: str, timestamp: int = -1) -> int:
    partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    topics = [{"name": name, "partitions": [partition]}]
    reply = await broker.call(
        ApiKey.LIST_OFFSETS, 5, replica_id=-1, isolation_level=0, topics=topics
    )
    assert reply.topics[0].partitions[0].error_code == 0
    offset: int = reply.topics[0].partitions[0].offset
    return offset


@pytest.mark.parametrize("configs", [{}, COMPACTED, RECOMPRESSED], ids=["", "compact", "lz4"])
@pytest.mark.parametrize("make", NO_RECORDS.values(), ids=NO_RECORDS.keys())
async def test_malformed_records_are_not_acknowledged(
    broker: Target, make: Callable[[], bytes], configs: dict[str, str]
) -> None:
    name, batch = await topic(broker, configs), make()
    async with broker.watched():
        assert (await produce(broker, name, batch)).error_code in (2, 87)
    assert await end_of(broker, name) == 0


@pytest.mark.parametrize("configs", [{}, COMPACTED, RECOMPRESSED], ids=["", "compact", "lz4"])
async def test_records_that_decompress_to_too_many_bytes_are_refused(
    broker: Target, configs: dict[str, str]
) -> None:
    names = [await topic(broker, configs) for _ in range(6)]
    batch = batch_of(zstd(one_record(400 * MIB)), 1, 4)
    assert len(batch) < 64 * 1024
    async with broker.watched():
        for name in names:
            assert (await produce(broker, name, batch)).error_code == Code.MESSAGE_TOO_LARGE
    assert [await end_of(broker, name) for name in names] == [0] * 6


async def test_many_records_in_few_bytes_do_not_delay_other_clients(broker: Target) -> None:
    name = await topic(broker)
    batch = batch_of(zstd(tiny_records(2**20)), 2**20, 4)
    late = batch[:35] + struct.pack(">q", NOW + 10) + batch[43:]
    async with broker.watched():
        assert (await produce(broker, name, resealed(late))).error_code == 0
        for timestamp in (NOW + 1, NOW + 5):
            assert await end_of(broker, name, timestamp) == 2**20 - 1
    assert await end_of(broker, name) == 2**20
