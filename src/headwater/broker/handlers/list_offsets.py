"""ListOffsets, versions 1-11.

Behaviour: the first offset whose record has the given timestamp or a later one. Special timestamps:
-1 latest (the last stable offset for ``read_committed``), -2 earliest, -3 largest timestamp, -4
earliest local (the earliest, because there is no tiered storage), -5 latest tiered and -6 earliest
pending upload (none). Answers are read from the store, not from a cache.

Codes: UNKNOWN_TOPIC_OR_PARTITION (3); UNSUPPORTED_VERSION (35): a special timestamp that the
version does not have; INVALID_REQUEST (42): a partition named twice; FENCED_LEADER_EPOCH (74);
UNKNOWN_LEADER_EPOCH (75).

Notes by version: the isolation level from 2; leader epochs from 4; -3 from 7, -4 from 8, -5 from 9,
-6 from 11.

Left out: the request's time-out.
"""

from collections import Counter
from typing import Any, Final

from headwater.broker.authorizer import Operation
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import Values
from headwater.broker.records.fetch_reads import check_leader_epoch
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.engine import TimestampedOffset, Topic
from headwater.errors import (
    InvalidRequest,
    KafkaError,
    UnsupportedVersion,
)
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_FIRST_VERSION: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_READ_COMMITTED: Final = 1


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """One result for each partition."""
    committed = optional_field(request, "isolation_level", default=0) == _READ_COMMITTED
    times = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    topics = []
    async for asked in in_turns(request.topics):
        partitions = []
        async for one in in_turns(asked.partitions):
            result: Values = {"partition_index": one.partition_index}
            try:
                if times[asked.name, one.partition_index] > 1:
                    raise InvalidRequest(f"{asked.name}-{one.partition_index} is named twice")
                result |= await _look_up(services, asked.name, one, context, committed)
            except KafkaError as error:
                result["error_code"] = error.code
            partitions.append(result)
        topics.append({"name": asked.name, "partitions": partitions})
    return {"topics": topics}


async def _look_up(
    services: Services,
    name: str,
    asked: Any,
    context: RequestContext,
    committed: bool,  # noqa: FBT001
) -> Values:
    partition, timestamp, version = asked.partition_index, asked.timestamp, context.version
    topic = await services.topics.resolve(context.session, name, partition, Operation.DESCRIBE)
    if timestamp < 0 and version < _FIRST_VERSION.get(timestamp, version + 1):
        raise UnsupportedVersion(f"version {version} does not have the timestamp {timestamp}")
    check_leader_epoch(
        optional_field(asked, "current_leader_epoch", default=-1), services.cluster.leader_epoch
    )
    found = await _find(services, topic, partition, timestamp, committed)
    if found is None:
        return {"timestamp": -1, "offset": -1}
    return {
        "timestamp": found.timestamp,
        "offset": found.offset,
        "leader_epoch": services.cluster.leader_epoch,
    }


async def _find(
    services: Services,
    topic: Topic,
    partition: int,
    timestamp: int,
    committed: bool,  # noqa: FBT001
) -> TimestampedOffset | None:
    engine = services.engine
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp == _MAX_TIMESTAMP:
        return await engine.max_timestamp(topic, partition)
    if timestamp < 0:
        offsets = await engine.offsets(topic, partition)
        if timestamp != _LATEST:
            return TimestampedOffset(offsets.log_start, -1)
        return TimestampedOffset(offsets.last_stable if committed else offsets.high_watermark, -1)
    found = await engine.offset_for_timestamp(topic, partition, timestamp)
    if found is None or not committed:
        return found
    stable = (await engine.offsets(topic, partition)).last_stable
    return found if found.offset < stable else None


API = Api(ApiKey.LIST_OFFSETS, "ListOffsets", handle=handle)
