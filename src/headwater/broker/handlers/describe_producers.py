"""DescribeProducers, version 0.

Behaviour: the idempotent producers that a partition remembers, with epoch, last sequence number and
the time of the last append. Any broker answers for any partition.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_TOPIC_EXCEPTION (17): illegal name.

Left out: nothing.
"""

from collections.abc import Iterable
from typing import Any

from headwater.broker.authorizer import Operation
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.engine import Topic
from headwater.errors import KafkaError, UnknownTopicOrPartition
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition, even if it is named twice."""
    partitions: dict[str, dict[int, None]] = {}
    for asked in request.topics:
        partitions.setdefault(asked.name, {}).update(dict.fromkeys(asked.partition_indexes))
    return {
        "topics": [
            {"name": name, "partitions": await _topic(services, context, name, numbers)}
            async for name, numbers in in_turns(partitions.items())
        ]
    }


async def _topic(
    services: Services, context: RequestContext, name: str, partitions: Iterable[int]
) -> list[Values]:
    try:
        topic = await services.topics.find_named(context.session, name, Operation.READ)
    except KafkaError as error:
        message = str(error)
        if isinstance(error, UnknownTopicOrPartition):
            message = "This server does not host this topic-partition."
        return [
            {"partition_index": p, "error_code": error.code, "error_message": message}
            for p in partitions
        ]
    return [await _partition(services, topic, p) async for p in in_turns(partitions)]


async def _partition(services: Services, topic: Topic, partition: int) -> Values:
    if not has_partition(topic, partition):
        return {"partition_index": partition, "error_code": Code.UNKNOWN_TOPIC_OR_PARTITION}
    try:
        producers = await services.engine.producers(topic, partition)
    except KafkaError as error:
        return {
            "partition_index": partition, "error_code": error.code, "error_message": str(error),
        }  # fmt: skip
    return {
        "partition_index": partition,
        "active_producers": [
            {
                "producer_id": producer.id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_append_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_start,
            }
            for producer in producers
        ],
    }


API = Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", handle=handle)
