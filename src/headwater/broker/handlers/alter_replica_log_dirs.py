"""AlterReplicaLogDirs, versions 1-2.

Behaviour: served, because Kafka's tools ask for it together with DescribeLogDirs and give up
on a broker that lacks it. There is one directory and every partition is in it: a move there is
done already. Codes: 3 unknown topic or partition, 57 any other directory.
"""

from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.handlers.describe_log_dirs import local_directory, shown_url
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.errors import UnknownTopicOrPartition
from headwater.wire.api_versions import ApiKey
from headwater.wire.error_codes import Code

_LOG_DIR_NOT_FOUND: Final = 57


async def handle(services: Services, request: Any, call: Call) -> Values:
    """One code for each partition."""
    url = services.storage_url
    own = str(local_directory(url) or shown_url(url))
    results = [
        {
            "topic_name": topic.name,
            "partitions": [
                {
                    "partition_index": partition,
                    "error_code": (
                        await _code(services, topic.name, partition)
                        if directory.path == own
                        else _LOG_DIR_NOT_FOUND
                    ),
                }
                for partition in topic.partitions
            ],
        }
        for directory in request.dirs
        for topic in directory.topics
    ]
    return {"results": results}


async def _code(services: Services, name: str, partition: int) -> int:
    try:
        topic = await services.engine.topics.find(name)
    except UnknownTopicOrPartition as error:
        return error.code
    there = 0 <= partition < len(topic.streams)
    return Code.NONE if there else Code.UNKNOWN_TOPIC_OR_PARTITION


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", handle=handle)
