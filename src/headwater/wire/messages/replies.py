"""The replies of the hot path, encoded from plain tuples: Produce, Fetch and Metadata.

Each accepts the same rows for every version and skips elements that a version lacks. The layouts
below list the elements of rows in order.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from kio.index import load_response_schema

from headwater.wire.messages.encoder import Segments, compile_rows
from headwater.wire.messages.encoder_forms import Layout

ProducePartition = tuple[int, int, int, int, int, Sequence[tuple[int, str]], str | None]
"""index, error_code, base_offset, log_append_time (ms or -1), log_start_offset, record_errors as
(batch_index, message), error_message."""

FetchPartition = tuple[
    int, int, int, int, int, Sequence[tuple[int, int]] | None, int, Sequence[memoryview] | None
]
"""partition_index, error_code, high_watermark, last_stable_offset, log_start_offset,
aborted_transactions as (producer_id, first_offset), preferred_read_replica, records."""

MetadataPartition = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes,
offline_replicas."""

MetadataTopic = tuple[int, str | None, bytes, bool, Sequence[MetadataPartition], int]
"""error_code, name, topic_id, is_internal, partitions, topic_authorized_operations."""

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
"""The value for operations that were not requested."""

_PRODUCE: Final[Layout] = {
    "responses": {
        "name": None,
        "topic_id": None,
        "partition_responses": {
            "index": None,
            "error_code": None,
            "base_offset": None,
            "log_append_time": None,
            "log_start_offset": None,
            "record_errors": {"batch_index": None, "batch_index_error_message": None},
            "error_message": None,
        },
    },
    "throttle_time": None,
}

_FETCH: Final[Layout] = {
    "throttle_time": None,
    "error_code": None,
    "session_id": None,
    "responses": {
        "topic": None,
        "topic_id": None,
        "partitions": {
            "partition_index": None,
            "error_code": None,
            "high_watermark": None,
            "last_stable_offset": None,
            "log_start_offset": None,
            "aborted_transactions": {"producer_id": None, "first_offset": None},
            "preferred_read_replica": None,
            "records": None,
        },
    },
}

_METADATA: Final[Layout] = {
    "throttle_time": None,
    "brokers": {"node_id": None, "host": None, "port": None, "rack": None},
    "cluster_id": None,
    "controller_id": None,
    "topics": {
        "error_code": None,
        "name": None,
        "topic_id": None,
        "is_internal": None,
        "partitions": {
            "error_code": None,
            "partition_index": None,
            "leader_id": None,
            "leader_epoch": None,
            "replica_nodes": None,
            "isr_nodes": None,
            "offline_replicas": None,
        },
        "topic_authorized_operations": None,
    },
    "cluster_authorized_operations": None,
}


def encode_produce(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, bytes, Sequence[ProducePartition]]],
    *,
    throttle_ms: int = 0,
) -> bytes:
    """A Produce response frame. A topic is (name, id, partitions); versions send name or id."""
    return b"".join(_encoder(0, version)(correlation_id, (topics, throttle_ms)))


def encode_fetch(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, bytes, Sequence[FetchPartition]]],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
) -> Segments:
    """A Fetch response frame in segments, which include the records' views without a copy."""
    return _encoder(1, version)(correlation_id, (throttle_ms, error_code, session_id, topics))


def encode_metadata(
    version: int,
    correlation_id: int,
    *,
    brokers: Sequence[tuple[int, str, int, str | None]],
    cluster_id: str | None,
    controller_id: int,
    topics: Sequence[MetadataTopic],
    cluster_authorized_operations: int = NO_AUTHORIZED_OPERATIONS,
    throttle_ms: int = 0,
) -> bytes:
    """A Metadata response frame; a broker is (node_id, host, port, rack)."""
    row = (
        throttle_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations,
    )  # fmt: skip
    return b"".join(_encoder(3, version)(correlation_id, row))


_LAYOUTS: Final = {0: _PRODUCE, 1: _FETCH, 3: _METADATA}


@cache
def _encoder(api_key: int, version: int) -> Callable[[int, tuple[Any, ...]], Segments]:
    return compile_rows(load_response_schema(api_key, version), _LAYOUTS[api_key])
