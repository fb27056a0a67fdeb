"""Aborted transactions in Fetch replies, against kio's own writer."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode

from headwater.broker.handlers.fetch import FetchReply
from headwater.broker.records.fetch_reads import FetchOutcome
from headwater.broker.records.fetch_sessions import FetchPartition
from headwater.engine import AbortedTransaction, Offsets, Read
from tests.unit.wire.messages.test_encoder import kio_frame
from tests.unit.wire.messages.test_replies import FETCH_VERSIONS, build, module

TOPIC_ID = UUID(int=0x1234)
FIRST_VERSION_WITH_IDS = 13
UNKNOWN_TOPIC = 3
DATA = b"batches"
ABORTED = (AbortedTransaction(7, 20), AbortedTransaction(2**40, 31))


def outcome(
    topic: str | UUID, partition: int, code: int, *aborted: AbortedTransaction
) -> FetchOutcome:
    read = Read([memoryview(DATA)], len(DATA), Offsets(3, 100, 90), aborted)
    return FetchOutcome(FetchPartition(topic, partition, 3, 1 << 20, -1), read, code)


def entity(version: int, topic: str | UUID, named: list[tuple[int, Any]]) -> Any:
    """The reply as kio's entities; ``named`` are each partition's code and aborted list."""
    schema = module("fetch", version)
    partitions = tuple(
        build(
            schema.PartitionData,
            partition_index=partition,
            error_code=ErrorCode(code),
            high_watermark=100,
            last_stable_offset=90,
            log_start_offset=3,
            aborted_transactions=aborted
            and tuple(
                schema.AbortedTransaction(
                    producer_id=one.producer_id, first_offset=one.first_offset
                )
                for one in aborted
            ),
            preferred_read_replica=-1,
            records=DATA,
        )
        for partition, (code, aborted) in enumerate(named)
    )
    by_id = isinstance(topic, UUID)
    name = {"topic_id": topic} if by_id else {"topic": topic}
    return build(
        load_response_schema(1, version),
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        session_id=0,
        responses=(build(schema.FetchableTopicResponse, **name, partitions=partitions),),
    )


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_only_a_read_committed_reply_names_aborted_transactions(
    version: int, committed: bool
) -> None:
    topic = TOPIC_ID if version >= FIRST_VERSION_WITH_IDS else "orders"
    outcomes = [
        outcome(topic, 0, 0, *ABORTED),
        outcome(topic, 1, 0),
        outcome(topic, 2, UNKNOWN_TOPIC),
    ]
    named: list[tuple[int, Any]] = (
        [(0, ABORTED), (0, ()), (UNKNOWN_TOPIC, ())]
        if committed
        else [(0, None), (0, None), (UNKNOWN_TOPIC, ())]
    )
    segments = FetchReply(outcomes, committed=committed).segments(version, 3, 0)
    assert b"".join(segments) == kio_frame(3, entity(version, topic, named))
