"""DescribeTopicPartitions, version 0.

Behaviour: topics in the order of their names, page by page. A page has at most
``response_partition_limit`` partitions, bounded by ``max.request.partition.size.limit``, and a
cursor to the next page. No topics in the request means all. Leaders are the same as in Metadata.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_TOPIC_EXCEPTION (17): illegal name; INVALID_REQUEST
(42): an illegal cursor.

Left out: eligible leader replicas, because there are no replicas.
"""

from collections.abc import Sequence
from typing import Any

from headwater.broker.authorizer import Operation, Resource, allowed_operations
from headwater.broker.cluster.zones import zone_of
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.creation import INTERNAL_TOPICS
from headwater.engine import Topic
from headwater.errors import InvalidRequest, KafkaError
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One page."""
    cursor = request.cursor
    start_name, start_partition = "", 0
    if cursor is not None:
        start_name, start_partition = cursor.topic_name, cursor.partition_index
        if start_partition < 0:
            raise InvalidRequest(
                f"DescribeTopicPartitionsRequest cursor partition must be valid: {start_partition}"
            )
    limit = services.settings.max_partitions_per_request
    left = max(1, min(limit, request.response_partition_limit))
    topics: list[Values] = []
    for name, found in await _topics(services, context, request.topics, start_name):
        if isinstance(found, int):
            topics.append({
                "name": name, "error_code": found, "is_internal": name in INTERNAL_TOPICS,
                "partitions": (),
            })  # fmt: skip
            continue
        first = start_partition if name == start_name else 0
        if left <= 0:
            return {"topics": topics, "next_cursor": _cursor(name, first)}
        page = range(first, min(len(found.streams), first + left))
        topics.append(_describe(services, context, found, page))
        left -= len(page)
        if page.stop < len(found.streams):
            return {"topics": topics, "next_cursor": _cursor(name, page.stop)}
    return {"topics": topics}


async def _topics(
    services: Services, context: RequestContext, asked: Sequence[Any], start_name: str
) -> list[tuple[str, Topic | int]]:
    """Topics from ``start_name`` on; for a named topic that cannot be shown, its error code."""
    if not asked:
        everything = await services.engine.topics.all()
        return [
            (topic.name, topic)
            for topic in everything
            if topic.name >= start_name
            and services.topics.allows(context.session, topic.name, Operation.DESCRIBE)
        ]
    found: list[tuple[str, Topic | int]] = []
    async for name in in_turns(sorted({one.name for one in asked})):
        if name < start_name:
            continue
        try:
            topic = await services.topics.find_named(context.session, name, Operation.DESCRIBE)
        except KafkaError as error:
            found.append((name, error.code))
        else:
            found.append((name, topic))
    return found


def _describe(services: Services, context: RequestContext, topic: Topic, page: range) -> Values:
    brokers = services.cluster.zone(zone_of(context.client_id), context.session.listener)
    partitions = []
    for index in page:
        replicas = brokers.replicas(topic.streams[index])
        partitions.append({
            "partition_index": index, "leader_id": replicas[0],
            "leader_epoch": services.cluster.leader_epoch,
            "replica_nodes": replicas, "isr_nodes": replicas,
            "eligible_leader_replicas": (), "last_known_elr": (), "offline_replicas": (),
        })  # fmt: skip
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.internal,
        "partitions": partitions,
        "topic_authorized_operations": allowed_operations(
            services.authorizer, context.session, Resource.TOPIC, topic.name
        ),
    }


def _cursor(name: str, partition: int) -> Values:
    return {"topic_name": name, "partition_index": partition}


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", handle=handle)
