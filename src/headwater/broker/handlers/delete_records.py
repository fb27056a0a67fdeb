"""DeleteRecords, versions 0-2.

Behaviour: advances a partition's log start to the given offset; -1 means the high watermark.
The reply has the new log start.

Codes: OFFSET_OUT_OF_RANGE (1): above the high watermark; UNKNOWN_TOPIC_OR_PARTITION (3);
INVALID_TOPIC_EXCEPTION (17): an internal topic; POLICY_VIOLATION (44): a topic whose
``cleanup.policy`` is ``compact`` alone.

Left out: the request's time-out.
"""

from typing import Any, Final

from headwater.broker.authorizer import Operation
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.creation import INTERNAL_TOPICS
from headwater.errors import (
    InvalidTopic,
    KafkaError,
    OffsetOutOfRange,
    PolicyViolation,
)
from headwater.topic_config.topic import is_deleted
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns

_HIGH_WATERMARK: Final = -1


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition; if it is named twice, the last offset counts, as in Kafka."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets.setdefault(topic.name, {}).update(
            (one.partition_index, one.offset) for one in topic.partitions
        )
    return {
        "topics": [
            {
                "name": name,
                "partitions": [
                    await _delete(services, context, name, partition, before)
                    async for partition, before in in_turns(partitions.items())
                ],
            }
            async for name, partitions in in_turns(offsets.items())
        ]
    }


async def _delete(
    services: Services, context: RequestContext, name: str, partition: int, before: int
) -> Values:
    try:
        if name in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot delete records of internal topic {name}")
        topic = await services.topics.resolve(context.session, name, partition, Operation.DELETE)
        if not is_deleted({**services.dynamic.brokers.topic_defaults, **topic.configs}):
            raise PolicyViolation(
                f"Records of partition {name}-{partition} can not be deleted due to the "
                "configured policy"
            )
        if before < _HIGH_WATERMARK:
            raise OffsetOutOfRange(f"The offset {before} is not valid")
        log_start = await services.engine.delete_records(topic, partition, before)
    except KafkaError as error:
        return {"partition_index": partition, "low_watermark": -1, "error_code": error.code}
    return {"partition_index": partition, "low_watermark": log_start}


API = Api(ApiKey.DELETE_RECORDS, "DeleteRecords", handle=handle)
