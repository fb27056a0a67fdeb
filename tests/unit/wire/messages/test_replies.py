import random
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.index import load_entity_module, load_response_schema
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from headwater.wire.messages.replies import encode_fetch, encode_metadata, encode_produce
from tests.support.wire.entities import every_version
from tests.unit.wire.messages.test_encoder import kio_frame

PRODUCE_VERSIONS = [version for key, version in every_version() if key == 0]
FETCH_VERSIONS = [version for key, version in every_version() if key == 1]
METADATA_VERSIONS = [version for key, version in every_version() if key == 3]

TOPIC_ID = UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0)


def build(entity_type: Any, **values: Any) -> Any:
    """Those values that the version has; the rest are its defaults."""
    names = {field.name for field in fields(entity_type)}
    return entity_type(**{name: value for name, value in values.items() if name in names})


def module(name: str, version: int) -> Any:
    return load_entity_module(name, version, EntityType.response)


RECORD_ERRORS_FROM = 8


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_rows_are_written_as_kio_writes_the_entities(version: int) -> None:
    schema = module("produce", version)
    rows = [
        (0, 0, 41, -1, 3, (), None),
        (7, 2, -1, 1_700_000_000_123, -1, (), "CRC does not match"),
        (9, 87, -1, -1, -1, [(3, "no key"), (70, "no key")], "2 records are refused"),
    ]
    partitions = tuple(
        build(
            schema.PartitionProduceResponse,
            index=index,
            error_code=ErrorCode(error),
            base_offset=offset,
            log_append_time=None if time < 0 else datetime.fromtimestamp(time / 1000, UTC),
            log_start_offset=start,
            record_errors=tuple(
                build(
                    schema.BatchIndexAndErrorMessage,
                    batch_index=at,
                    batch_index_error_message=text,
                )
                for at, text in record_errors
            )
            if version >= RECORD_ERRORS_FROM
            else (),
            error_message=message,
        )
        for index, error, offset, time, start, record_errors, message in rows
    )
    topic = build(
        schema.TopicProduceResponse,
        name="orders",
        topic_id=TOPIC_ID,
        partition_responses=partitions,
    )
    response = build(
        load_response_schema(0, version),
        responses=(topic,),
        throttle_time=timedelta(milliseconds=5),
    )
    frame = encode_produce(version, 9, [("orders", TOPIC_ID.bytes, rows)], throttle_ms=5)
    assert frame == kio_frame(9, response)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_rows_are_written_as_kio_writes_the_entities(version: int) -> None:
    schema = module("fetch", version)
    chance = random.Random(version)
    records = [None, b"", chance.randbytes(100), chance.randbytes(5000)]
    partitions, rows = [], []
    for index, data in enumerate(records):
        aborted = None if index % 2 else [(5, 10), (6, 11)]
        partitions.append(
            build(
                schema.PartitionData,
                partition_index=index,
                error_code=ErrorCode(index),
                high_watermark=100,
                last_stable_offset=90,
                log_start_offset=3,
                aborted_transactions=None
                if aborted is None
                else tuple(
                    schema.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted
                ),
                preferred_read_replica=-1,
                records=data,
            )
        )
        views = None
        if data is not None:
            half = len(data) // 2
            parts = [memoryview(data)[:half], memoryview(data)[half:]]
            views = [part for part in parts if part]
        rows.append((index, index, 100, 90, 3, aborted, -1, views))
    topic = build(
        schema.FetchableTopicResponse,
        topic="orders",
        topic_id=TOPIC_ID,
        partitions=tuple(partitions),
    )
    response = build(
        load_response_schema(1, version),
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        session_id=77,
        responses=(topic,),
    )
    segments = encode_fetch(version, 3, [("orders", TOPIC_ID.bytes, rows)], session_id=77)
    assert b"".join(segments) == kio_frame(3, response)
    sent = [segment for segment in segments if isinstance(segment, memoryview)]
    assert sent == [part for row in rows if row[7] is not None for part in row[7]]


@pytest.mark.parametrize("version", METADATA_VERSIONS)
def test_metadata_rows_are_written_as_kio_writes_the_entities(version: int) -> None:
    schema = module("metadata", version)
    partition_rows = [
        (0, 0, 1, 4, (1,), (1,), ()),
        (5, 1, -1, -1, (1, 2, 3), (), (2, 3)),
    ]
    partitions = tuple(
        build(
            schema.MetadataResponsePartition,
            error_code=ErrorCode(error),
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=offline,
        )
        for error, index, leader, epoch, replicas, isr, offline in partition_rows
    )
    topic = build(
        schema.MetadataResponseTopic,
        error_code=ErrorCode.none,
        name="orders",
        topic_id=TOPIC_ID,
        is_internal=True,
        partitions=partitions,
        topic_authorized_operations=-(2**31),
    )
    broker = build(schema.MetadataResponseBroker, node_id=1, host="h", port=9092, rack="a")
    response = build(
        load_response_schema(3, version),
        throttle_time=timedelta(0),
        brokers=(broker,),
        cluster_id="cluster",
        controller_id=1,
        topics=(topic,),
        error_code=ErrorCode.none,
    )
    frame = encode_metadata(
        version,
        8,
        brokers=[(1, "h", 9092, "a")],
        cluster_id="cluster",
        controller_id=1,
        topics=[(0, "orders", TOPIC_ID.bytes, True, partition_rows, -(2**31))],
    )
    assert frame == kio_frame(8, response)
