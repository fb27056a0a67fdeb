"""AlterReplicaLogDirs, versions 1-2.

Behaviour: every partition is in the one directory, so a move to it succeeds and changes nothing.
Kafka's tools send this request with DescribeLogDirs and fail without it.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); LOG_DIR_NOT_FOUND (57): another directory.

Left out: moves, because there is one directory.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.engine import Topic
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition."""
    own = services.engine.directory.name
    moves = [(one.path == own, topic) for one in request.dirs for topic in one.topics]
    results = []
    async for is_own, topic in in_turns(moves):
        if is_own:
            known = await services.topics.find_for_cluster(topic.name)
            rows = LazyRows(len(topic.partitions), partial(_rows, topic.partitions, known))
        else:
            rows = LazyRows(len(topic.partitions), partial(_unknown_directory, topic.partitions))
        results.append({"topic_name": topic.name, "partitions": rows})
    return {"results": results}


def _rows(partitions: Sequence[int], known: Topic | None) -> Iterator[Values]:
    for partition in partitions:
        there = known is not None and has_partition(known, partition)
        code = Code.NONE if there else Code.UNKNOWN_TOPIC_OR_PARTITION
        yield {"partition_index": partition, "error_code": code}


def _unknown_directory(partitions: Sequence[int]) -> Iterator[Values]:
    for partition in partitions:
        yield {"partition_index": partition, "error_code": Code.LOG_DIR_NOT_FOUND}


API = Api(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    "AlterReplicaLogDirs",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
