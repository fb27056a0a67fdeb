"""AlterReplicaLogDirs, versions 1-2.

Behaviour: served, because Kafka's tools ask for it together with DescribeLogDirs and give up
on a broker that lacks it. There is one directory and every partition is in it: a move there is
done already. Codes: 3 unknown topic or partition, 57 any other directory.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.engine import Topic
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns

_LOG_DIR_NOT_FOUND: Final = 57


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One code for each partition."""
    own = services.engine.directory.name
    moves = [(one.path == own, topic) for one in request.dirs for topic in one.topics]
    results = []
    async for is_own, topic in in_turns(moves):
        if is_own:
            known = await services.topics.find_for_cluster(topic.name)
            rows = LazyRows(len(topic.partitions), partial(_rows, topic.partitions, known))
        else:
            rows = LazyRows(len(topic.partitions), partial(_elsewhere, topic.partitions))
        results.append({"topic_name": topic.name, "partitions": rows})
    return {"results": results}


def _rows(partitions: Sequence[int], known: Topic | None) -> Iterator[Values]:
    for partition in partitions:
        there = known is not None and has_partition(known, partition)
        code = Code.NONE if there else Code.UNKNOWN_TOPIC_OR_PARTITION
        yield {"partition_index": partition, "error_code": code}


def _elsewhere(partitions: Sequence[int]) -> Iterator[Values]:
    """What is asked of a directory that is not there."""
    for partition in partitions:
        yield {"partition_index": partition, "error_code": _LOG_DIR_NOT_FOUND}


API = Api(
    ApiKey.ALTER_REPLICA_LOG_DIRS,
    "AlterReplicaLogDirs",
    handle=handle,
    operation=Operation.ALTER,
    resource=Resource.CLUSTER,
)
