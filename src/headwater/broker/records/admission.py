"""Checks the batch of a Produce request by its header, like Kafka's LogValidator.

These are pure functions. Codes: 2 wrong CRC or length, 10 larger than ``max.message.bytes``, 76
unknown codec, or one that the version does not allow, 87 another record format, a control batch,
a negative sequence number, or more records than the bytes can hold. ``record_checks`` checks the
records themselves.
"""

import struct
from typing import Final

from crc32c import crc32c
from msgspec.structs import replace

from headwater.broker.records.topic_rules import TopicRules
from headwater.errors import (
    InvalidRecord,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from headwater.wire.batches.batch import (
    CRC_START,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MIN_RECORD,
    Batch,
    split_batches,
)
from headwater.wire.batches.codecs import Codec
from headwater.wire.batches.records import with_log_append_time

NO_TIMESTAMP: Final = -1
MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000
"""The latest timestamp that 64 bits hold in microseconds, which is how tables store it."""

_FIRST_VERSION_WITH_ZSTD: Final = 7
_MAGIC_AT: Final = 16
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_ATTRIBUTES: Final = struct.Struct(">h")


def admit_records(
    records: bytes | memoryview | None, rules: TopicRules, version: int, now_ms: int
) -> Batch:
    """The checked batch of one partition, with the topic's type of timestamp.

    Raises the ``KafkaError`` for the reply.
    """
    records = records or b""
    if len(records) > _MAGIC_AT and records[_MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"record format {records[_MAGIC_AT]} is not supported; use format 2")
    batches = split_batches(records)
    if len(batches) != 1:
        raise InvalidRecord(
            f"{len(batches)} record batches for one partition: a Produce request must have one"
        )
    batch = batches[0]
    _check_header(batch, version)
    check_size(batch, rules)
    if rules.append_time:
        return with_log_append_time(batch, now_ms)
    return _without_append_time(batch) if batch.attributes & LOG_APPEND_TIME else batch


def check_size(batch: Batch, rules: TopicRules) -> None:
    """Raises ``MessageTooLarge``."""
    if len(batch.data) > rules.max_bytes:
        raise MessageTooLarge(
            f"a record batch of {len(batch.data)} bytes is larger than max.message.bytes, "
            f"which is {rules.max_bytes}"
        )


def _check_header(batch: Batch, version: int) -> None:
    codec = batch.codec
    if codec > Codec.ZSTD:
        raise UnsupportedCompressionType(f"codec {codec} is unknown")
    if codec == Codec.ZSTD and version < _FIRST_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionType(f"zstd is not allowed in Produce version {version}")
    if codec == Codec.NONE and batch.count * MIN_RECORD > batch.size - HEADER_SIZE:
        raise InvalidRecord(
            f"{batch.count} records do not fit into {batch.size - HEADER_SIZE} bytes"
        )
    if batch.is_control:
        raise InvalidRecord("clients are not allowed to write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecord(
            f"sequence number {batch.base_sequence} of producer id {batch.producer_id} is negative"
        )


def time_limits(rules: TopicRules, now_ms: int) -> tuple[int, int]:
    """The earliest and the latest timestamp that a topic accepts, in milliseconds."""
    if rules.append_time:
        return -(2**63), 2**63 - 1
    earliest = max(now_ms - rules.before_ms, -MAX_TIMESTAMP_MS)
    return earliest, min(now_ms + rules.after_ms, MAX_TIMESTAMP_MS)


def within(batch: Batch, earliest: int, latest: int) -> bool:
    """Whether the first and the largest timestamp in a batch's header are in bounds."""
    first, largest = batch.base_timestamp, batch.max_timestamp
    return (first == NO_TIMESTAMP or earliest <= first <= latest) and (
        largest == NO_TIMESTAMP or earliest <= largest <= latest
    )


def _without_append_time(batch: Batch) -> Batch:
    """Clear the LogAppendTime bit, which a producer set on a topic with CreateTime."""
    attributes = batch.attributes & ~LOG_APPEND_TIME
    data = bytearray(batch.data)
    _ATTRIBUTES.pack_into(data, CRC_START, attributes)
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[CRC_START:]))
    return replace(batch, data=bytes(data), attributes=attributes)
