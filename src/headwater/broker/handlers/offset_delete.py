"""OffsetDelete, version 0.

Behaviour: deletes a group's offsets of partitions that no member subscribes to.

Codes: COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16); INVALID_GROUP_ID (24): no group id;
NON_EMPTY_GROUP (68): its members are not consumers; GROUP_ID_NOT_FOUND (69); of each partition
UNKNOWN_TOPIC_OR_PARTITION (3) and GROUP_SUBSCRIBED_TO_TOPIC (86): a member subscribes to the topic.

Left out: nothing.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_topics import find_topic
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.groups.requests import Partition
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """The group is asked even if no partition exists, because its own error takes precedence."""
    if not request.group_id:
        return {"error_code": Code.INVALID_GROUP_ID}
    known: set[Partition] = set()
    refused: dict[str, int] = {}
    async for asked in in_turns(request.topics):
        topic = await find_topic(services, context.session, asked.name, Operation.READ)
        if isinstance(topic, int):
            refused[asked.name] = topic
            continue
        known.update(
            (topic.name, one.partition_index)
            for one in asked.partitions
            if has_partition(topic, one.partition_index)
        )
    error, codes = await services.groups.delete_offsets(request.group_id, known)
    if error:
        return {"error_code": error}
    return {
        "topics": [
            {
                "name": asked.name,
                "partitions": LazyRows(
                    len(asked.partitions), partial(_rows, asked, codes, refused)
                ),
            }
            async for asked in in_turns(request.topics)
        ]
    }


def _rows(
    asked: Any, codes: Mapping[Partition, int], refused: Mapping[str, int]
) -> Iterator[Values]:
    other = refused.get(asked.name, Code.UNKNOWN_TOPIC_OR_PARTITION)
    for one in asked.partitions:
        code = codes.get((asked.name, one.partition_index), other)
        yield {"partition_index": one.partition_index, "error_code": code}


API = Api(
    ApiKey.OFFSET_DELETE,
    "OffsetDelete",
    handle=handle,
    operation=Operation.DELETE,
    resource=Resource.GROUP,
)
