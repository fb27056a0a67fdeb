"""AlterPartitionReassignments, versions 0-1.

Behaviour: any broker serves any partition, so a reassignment to live brokers succeeds at once and
nothing moves.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); INVALID_REPLICA_ASSIGNMENT (39): replicas that are missing,
repeated or not registered; NO_REASSIGNMENT_IN_PROGRESS (85): a cancellation, because no
reassignment is ever in progress.

Notes by version: ``allow_replication_factor_change`` (from 1) is returned unchanged.

Left out: the request's time-out.
"""

from collections.abc import Sequence
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.broker.topics.replica_assignment import check_brokers
from headwater.engine import Topic
from headwater.errors import InvalidReplicaAssignment
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition."""
    return {
        "allow_replication_factor_change": optional_field(
            request, "allow_replication_factor_change", default=True
        ),
        "responses": [
            {"name": asked.name, "partitions": await _topic(services, asked)}
            async for asked in in_turns(request.topics)
        ],
    }


async def _topic(services: Services, asked: Any) -> list[Values]:
    topic = await services.topics.find_for_cluster(asked.name)
    if topic is None:
        missing = f"Unable to find a topic named {asked.name}."
        return [
            _result(one.partition_index, Code.UNKNOWN_TOPIC_OR_PARTITION, missing)
            for one in asked.partitions
        ]
    return [
        _partition(services, topic, one.partition_index, one.replicas)
        async for one in in_turns(asked.partitions)
    ]


def _partition(
    services: Services, topic: Topic, partition: int, replicas: Sequence[int] | None
) -> Values:
    if not has_partition(topic, partition):
        message = f"Unable to find partition {topic.name}:{partition}."
        return _result(partition, Code.UNKNOWN_TOPIC_OR_PARTITION, message)
    if replicas is None:
        return _result(partition, Code.NO_REASSIGNMENT_IN_PROGRESS, None)
    try:
        check_brokers(services.cluster, replicas, None)
    except InvalidReplicaAssignment as error:
        return _result(partition, error.code, str(error))
    return _result(partition, Code.NONE, None)


def _result(partition: int, code: int, message: str | None) -> Values:
    return {"partition_index": partition, "error_code": code, "error_message": message}


API = Api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    "AlterPartitionReassignments",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
