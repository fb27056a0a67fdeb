"""OffsetFetch, versions 1-10.

Behaviour: the committed offsets of the requested partitions, or of all; -1 without a commit, even
if the group or the partition does not exist.

Codes: COORDINATOR_LOAD_IN_PROGRESS (14): the metadata store does not answer. All clients retry
after 14, and several fail after 15; NOT_COORDINATOR (16); UNKNOWN_MEMBER_ID (25) and
STALE_MEMBER_EPOCH (113): a wrong member of a consumer group; INVALID_REQUEST (42): a group named
twice; UNKNOWN_TOPIC_ID (100).

Notes by version: all partitions (null), and an error of the group, from 2. Up to 7 that error
is repeated at each partition, because aiokafka looks only there, and takes Kafka's reply without
partitions for "no commit". Leader epochs from 5; stable offsets on request from 7; several groups
from 8; the member's id and epoch from 9; topic ids in place of names from 10, where "all" leaves
out deleted topics.

Left out: waiting for offsets of open transactions (88), because transactions are not served.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_topics import FIRST_VERSION_WITH_IDS, find_topic, naming
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.request_fields import optional_field
from headwater.broker.services import RequestContext, Services
from headwater.engine import Topic
from headwater.errors import CoordinatorNotAvailable, KafkaError, TopicAuthorizationFailed
from headwater.groups.requests import CommittedOffset, Partition
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import gather_in_turns, in_turns

_FIRST_VERSION_WITH_GROUPS: Final = 8
_NOTHING: Final = CommittedOffset()

RequestedTopics = list[tuple[Any, Topic | str | int]]
"""Items of the request, each with its topic, its name or its error code."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Groups are read concurrently; each has its own error."""
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    if context.version >= _FIRST_VERSION_WITH_GROUPS:
        return {"groups": await _groups(services, request.groups, context, by_id=by_id)}
    reply = await _fetch(services, request, context, by_id=False)
    if code := reply["error_code"]:
        reply["topics"] = [_refusal(topic, code) for topic in request.topics or ()]
    return reply


async def _groups(
    services: Services, asked: Sequence[Any], context: RequestContext, *, by_id: bool
) -> list[Values]:
    """A group that is named twice gets 42, because its offsets would be in the reply twice."""
    times = Counter(group.group_id for group in asked)
    groups = {group.group_id: group for group in asked}

    async def fetch(group: Any) -> Values:
        if times[group.group_id] > 1:
            return {
                "group_id": group.group_id, "error_code": Code.INVALID_REQUEST, "topics": ()
            }  # fmt: skip
        return await _fetch(services, group, context, by_id=by_id)

    return await gather_in_turns(list(groups.values()), fetch)


async def _fetch(services: Services, asked: Any, context: RequestContext, *, by_id: bool) -> Values:
    reply: Values = {"group_id": asked.group_id, "error_code": Code.NONE, "topics": ()}
    member = (
        optional_field(asked, "member_id", default=None),
        optional_field(asked, "member_epoch", default=-1),
    )
    try:
        API.require(services, context, asked.group_id)
        if asked.topics is None:
            code, offsets = await services.groups.fetch(
                asked.group_id, None, member_id=member[0], epoch=member[1]
            )
            topics = await _all(services, context, offsets, by_id=by_id)
        else:
            named: RequestedTopics = []
            wanted: dict[Partition, None] = {}
            async for one in in_turns(asked.topics):
                found = await _find(services, context, one, by_id=by_id)
                named.append((one, found))
                if not isinstance(found, int):
                    name = _name(found)
                    async for index in in_turns(one.partition_indexes):
                        wanted[name, index] = None
            code, offsets = await services.groups.fetch(
                asked.group_id, list(wanted), member_id=member[0], epoch=member[1]
            )
            topics = [
                _topic(one, found, offsets, by_id=by_id) async for one, found in in_turns(named)
            ]
    except CoordinatorNotAvailable:
        return reply | {"error_code": Code.COORDINATOR_LOAD_IN_PROGRESS}
    except KafkaError as error:
        return reply | {"error_code": error.code}
    return reply | ({"error_code": code} if code else {"topics": topics})


def _refusal(asked: Any, code: int) -> Values:
    indexes = asked.partition_indexes
    rows = LazyRows(len(indexes), lambda: (_show(index, _NOTHING, code) for index in indexes))
    return {"name": asked.name, "partitions": rows}


async def _find(
    services: Services, context: RequestContext, asked: Any, *, by_id: bool
) -> Topic | str | int:
    """Find a topic by id. A name is not looked up, because a deleted topic may have offsets."""
    if by_id:
        return await find_topic(services, context.session, asked.topic_id, Operation.DESCRIBE)
    name = str(asked.name)
    if not services.topics.allows(context.session, name, Operation.DESCRIBE):
        return TopicAuthorizationFailed.code
    return name


def _name(found: Topic | str) -> str:
    return found if isinstance(found, str) else found.name


def _topic(
    asked: Any,
    found: Topic | str | int,
    offsets: Mapping[Partition, CommittedOffset],
    *,
    by_id: bool,
) -> Values:
    indexes = asked.partition_indexes
    if isinstance(found, int):
        rows = LazyRows(len(indexes), lambda: (_show(i, _NOTHING, found) for i in indexes))
    else:
        name = _name(found)
        rows = LazyRows(
            len(indexes), lambda: (_show(i, offsets.get((name, i), _NOTHING)) for i in indexes)
        )
    return {**naming(asked, by_id=by_id), "partitions": rows}


async def _all(
    services: Services,
    context: RequestContext,
    offsets: Mapping[Partition, CommittedOffset],
    *,
    by_id: bool,
) -> Iterable[Values]:
    rows: dict[str, list[Values]] = {}
    for (name, index), offset in offsets.items():
        rows.setdefault(name, []).append(_show(index, offset))
    topics: list[Values] = []
    for name, partitions in rows.items():
        if not services.topics.allows(context.session, name, Operation.DESCRIBE):
            continue
        topic: Values = {"name": name, "partitions": partitions}
        if by_id:
            found = await find_topic(services, context.session, name, Operation.DESCRIBE)
            if isinstance(found, int):
                continue
            topic["topic_id"] = found.id
        topics.append(topic)
    return topics


def _show(index: int, offset: CommittedOffset, code: int = 0) -> Values:
    return {
        "partition_index": index,
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "error_code": code,
    }


API = Api(
    ApiKey.OFFSET_FETCH,
    "OffsetFetch",
    handle=handle,
    operation=Operation.DESCRIBE,
    resource=Resource.GROUP,
    checked_by_handler=True,
)
