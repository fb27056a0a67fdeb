"""OffsetCommit, versions 2-10.

Behaviour: the offsets are durable before the reply. A commit without a member creates a missing
group, even the group "", as in Kafka.

Codes of each partition: UNKNOWN_TOPIC_OR_PARTITION (3); OFFSET_METADATA_TOO_LARGE (12);
INVALID_COMMIT_OFFSET_SIZE (28): the offset cannot be stored; UNKNOWN_TOPIC_ID (100). Codes of the
group: COORDINATOR_LOAD_IN_PROGRESS (14); COORDINATOR_NOT_AVAILABLE (15); NOT_COORDINATOR (16);
ILLEGAL_GENERATION (22); INVALID_GROUP_ID (24); UNKNOWN_MEMBER_ID (25); REBALANCE_IN_PROGRESS (27);
FENCED_INSTANCE_ID (82); FENCED_MEMBER_EPOCH (110); STALE_MEMBER_EPOCH (113).

Notes by version: a retention time up to 4; leader epochs from 6; static members from 7; the member
epoch of consumer groups from 9; topic ids from 10.

Left out: nothing.
"""

from collections.abc import Collection, Mapping
from typing import Any

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_members import milliseconds
from headwater.broker.group_topics import (
    FIRST_VERSION_WITH_IDS,
    find_topic,
    naming,
)
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.broker.topics.access import has_partition
from headwater.engine import Topic
from headwater.groups.requests import CommitRequest, CommittedOffset, Partition
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import in_turns


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Offsets of existing partitions go to the group; the others get their codes here."""
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    now_ms = services.clock.now_ms()
    expires_ms = _expiry(request, now_ms)
    offsets: dict[Partition, CommittedOffset] = {}
    topics: list[Topic | int] = []
    async for asked in in_turns(request.topics):
        last = max((one.partition_index for one in asked.partitions), default=0)
        named = asked.topic_id if by_id else asked.name
        topic = await find_topic(services, context.session, named, Operation.READ, partition=last)
        topics.append(topic)
        if isinstance(topic, int):
            continue
        async for one in in_turns(asked.partitions):
            if has_partition(topic, one.partition_index):
                offsets[topic.name, one.partition_index] = CommittedOffset(
                    offset=one.committed_offset,
                    leader_epoch=optional_field(one, "committed_leader_epoch", default=-1),
                    metadata=one.committed_metadata or "",
                    committed_ms=now_ms,
                    expires_ms=expires_ms,
                )
    codes: Mapping[Partition, int] = {}
    if offsets:
        codes = await services.groups.commit(
            CommitRequest(
                group=request.group_id,
                member_id=request.member_id,
                instance_id=optional_field(request, "group_instance_id", default=None),
                epoch=request.generation_id_or_member_epoch,
                version=context.version,
                offsets=offsets,
            )
        )
    return {
        "topics": [
            {
                **naming(asked, by_id=by_id),
                "partitions": _codes(asked, topic, codes),
            }
            async for asked, topic in in_turns(zip(request.topics, topics, strict=True))
        ]
    }


def _expiry(request: Any, now_ms: int) -> int | None:
    retention = optional_field(request, "retention_time", default=None)
    if retention is None or (kept_ms := milliseconds(retention)) == -1:
        return None
    return now_ms + kept_ms


def _codes(asked: Any, topic: Topic | int, codes: Mapping[Partition, int]) -> Collection[Values]:
    if isinstance(topic, int):
        code = topic
        return LazyRows(
            len(asked.partitions), lambda: (_code(one, code) for one in asked.partitions)
        )
    name = topic.name
    return LazyRows(
        len(asked.partitions),
        lambda: (
            _code(one, codes.get((name, one.partition_index), Code.UNKNOWN_TOPIC_OR_PARTITION))
            for one in asked.partitions
        ),
    )


def _code(asked: Any, code: int) -> Values:
    return {"partition_index": asked.partition_index, "error_code": code}


API = Api(
    ApiKey.OFFSET_COMMIT,
    "OffsetCommit",
    handle=handle,
    operation=Operation.READ,
    resource=Resource.GROUP,
)
