"""OffsetFetch, versions 1-10.

Behaviour: the offsets that a group committed, of the partitions asked for or of all; -1 where
it never did, whether or not the group and the partition exist. Codes: 42 for a group that is
named twice, 16, for a member of a
consumer group 25 and 113; 100 for a topic id that no topic has; 14 where the metadata store
does not answer, as every client tries again then, and several give up at 15 here.

Notes by version: all partitions (null) from 2, with an error of the group as a whole; up to 7
that error stands at each partition too, because aiokafka looks only there, and takes an answer
without partitions, as Kafka gives it, for "nothing committed"; leader epochs from 5; stable
offsets on request from 7; many groups from 8; the member's id and epoch from 9; topic ids in
place of names from 10, where offsets of topics that are gone are left out of "all".

Left out: waiting for offsets of open transactions (88), as there are none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from headwater.broker.authorizer import Operation, Resource
from headwater.broker.group_topics import FIRST_VERSION_WITH_IDS, find_topic, naming
from headwater.broker.network.dispatch import Api
from headwater.broker.network.replies import LazyRows, Values
from headwater.broker.services import RequestContext, Services
from headwater.engine import Topic
from headwater.errors import CoordinatorNotAvailable, KafkaError, TopicAuthorizationFailed
from headwater.groups.requests import CommittedOffset, Partition
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import gather_in_turns, in_turns

_FIRST_VERSION_WITH_GROUPS: Final = 8
_NOTHING: Final = CommittedOffset()

Named = list[tuple[Any, Topic | str | int]]
"""Elements of the request with their topics or names, or the code that they get instead."""


async def handle(services: Services, request: Any, context: RequestContext) -> Values:
    """Groups are asked side by side; each has its own error."""
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
    """A group that is named twice might be asked for all of its offsets each time: 42."""
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
    reply: Values = {"group_id": asked.group_id, "error_code": 0, "topics": ()}
    member = (getattr(asked, "member_id", None), getattr(asked, "member_epoch", -1))
    try:
        API.require(services, context, asked.group_id)
        if asked.topics is None:
            code, offsets = await services.groups.fetch(
                asked.group_id, None, member_id=member[0], epoch=member[1]
            )
            topics = await _all(services, context, offsets, by_id=by_id)
        else:
            named: Named = []
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
    """By name no topic is looked up: offsets of one that is gone are given, too."""
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
