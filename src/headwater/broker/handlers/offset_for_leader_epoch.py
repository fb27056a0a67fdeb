"""OffsetForLeaderEpoch, versions 2-4.

Behaviour: the leader epoch is the cluster's restore epoch. The current epoch ends at the high
watermark. An older epoch ends at the offset that the cluster was restored to: a client beyond it
learns that records it has read may be gone. A future epoch has no end (-1).

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); FENCED_LEADER_EPOCH (74); UNKNOWN_LEADER_EPOCH (75).

Left out: nothing.
"""

from typing import Any

from headwater.broker.authorizer import Operation
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.records.fetch_reads import check_leader_epoch
from headwater.broker.services import RequestContext, Services
from headwater.errors import KafkaError
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition; one that is asked for again is looked up once."""
    found: dict[tuple[str, int, int, int], Values] = {}

    async def find(name: str, asked: Any) -> Values:
        key = (name, asked.partition, asked.leader_epoch, asked.current_leader_epoch)
        if key not in found:
            found[key] = await _end(services, context, name, asked)
        return found[key]

    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    await find(topic.topic, one) async for one in in_turns(topic.partitions)
                ],
            }
            async for topic in in_turns(request.topics)
        ]
    }


async def _end(services: Services, context: RequestContext, name: str, asked: Any) -> Values:
    result: Values = {"partition": asked.partition, "leader_epoch": -1, "end_offset": -1}
    current = services.cluster.leader_epoch
    try:
        topic = await services.topics.resolve(
            context.session, name, asked.partition, Operation.DESCRIBE
        )
        check_leader_epoch(asked.current_leader_epoch, current)
        if 0 <= asked.leader_epoch <= current:
            epoch = asked.leader_epoch
            end = await services.engine.end_of_epoch(topic, asked.partition, epoch)
            result |= {"leader_epoch": epoch, "end_offset": end}
    except KafkaError as error:
        result["error_code"] = error.code
    return result


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", handle=handle)
