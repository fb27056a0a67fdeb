"""AlterPartitionReassignments, versions 0-1.

Behaviour: every broker serves every partition and the object store replicates, so a
reassignment to brokers that live is done the moment it is asked for, and nothing moves. Codes:
3 unknown topic or partition, 39 replicas that are none, repeated or not registered, 85 a
cancellation, as there is never a reassignment in progress.

Notes by version: ``allow_replication_factor_change`` from 1 on is given back as it came; the
replication factor has no meaning here.
"""

from collections.abc import Sequence
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.broker.topics.replica_assignment import check_brokers
from headwater.engine import Topic
from headwater.errors import InvalidReplicaAssignment
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns

_NO_REASSIGNMENT_IN_PROGRESS: Final = 85


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One code for each partition."""
    return {
        "allow_replication_factor_change": getattr(
            request, "allow_replication_factor_change", True
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
        return _result(partition, _NO_REASSIGNMENT_IN_PROGRESS, None)
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
