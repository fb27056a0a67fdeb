"""OffsetDelete, version 0.

Behaviour: forget a group's offsets of some partitions, which no member may be reading at the
time (86). Codes: 15, 16, 24 (no group id), 69 where there is no such group, 68 where its
members are not consumers; of a partition 3.

Left out: nothing.
"""

from typing import Any

from headwater.broker.dispatch import Api
from headwater.broker.group_topics import find_topic
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.groups.requests import Partition
from headwater.wire.api_versions import ApiKey
from headwater.wire.error_codes import Code


async def handle(services: Services, request: Any, call: Call) -> Values:
    """The group is asked although no partition exists: its own error comes first."""
    if not request.group_id:
        return {"error_code": Code.INVALID_GROUP_ID}
    known: list[Partition] = []
    for asked in request.topics:
        if (topic := await find_topic(services, asked.name)) is not None:
            count = len(topic.streams)
            known += [
                (topic.name, one.partition_index)
                for one in asked.partitions
                if 0 <= one.partition_index < count
            ]
    error, codes = await services.groups.delete_offsets(request.group_id, known)
    if error:
        return {"error_code": error}
    return {
        "topics": [
            {
                "name": asked.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": codes.get(
                            (asked.name, one.partition_index), Code.UNKNOWN_TOPIC_OR_PARTITION
                        ),
                    }
                    for one in asked.partitions
                ],
            }
            for asked in request.topics
        ]
    }


API = Api(ApiKey.OFFSET_DELETE, "OffsetDelete", handle=handle)
