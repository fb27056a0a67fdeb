"""AlterReplicaLogDirs, versions 1-2.

Behaviour: served, because Kafka's tools ask for it together with DescribeLogDirs and give up
on a broker that lacks it. There is one directory and every partition is in it: a move there is
done already. Codes: 3 unknown topic or partition, 57 any other directory.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.replies import LateRows, Values
from headwater.broker.services import Call, Services
from headwater.errors import UnknownTopicOrPartition
from headwater.wire.api_versions import ApiKey
from headwater.wire.error_codes import Code
from headwater.work_budget import in_turns

_LOG_DIR_NOT_FOUND: Final = 57


async def handle(services: Services, request: Any, call: Call) -> Values:
    """One code for each partition."""
    own = services.engine.directory.name
    moves = [(one.path == own, topic) for one in request.dirs for topic in one.topics]
    results = []
    async for is_own, topic in in_turns(moves):
        count = await _count(services, topic.name) if is_own else None
        rows = LateRows(len(topic.partitions), partial(_rows, topic.partitions, count))
        results.append({"topic_name": topic.name, "partitions": rows})
    return {"results": results}


async def _count(services: Services, name: str) -> int:
    try:
        return len((await services.engine.topics.find(name)).streams)
    except UnknownTopicOrPartition:
        return 0


def _rows(partitions: Sequence[int], count: int | None) -> Iterator[Values]:
    """``count`` is the topic's number of partitions, None in a directory that is not there."""
    for partition in partitions:
        if count is None:
            code: int = _LOG_DIR_NOT_FOUND
        else:
            code = Code.NONE if 0 <= partition < count else Code.UNKNOWN_TOPIC_OR_PARTITION
        yield {"partition_index": partition, "error_code": code}


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", handle=handle)
