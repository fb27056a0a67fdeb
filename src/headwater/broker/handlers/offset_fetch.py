"""OffsetFetch, versions 1-10.

Behaviour: the offsets that a group committed, of the partitions asked for or of all; -1 where
it never did, whether or not the group and the partition exist. Codes: 16, for a member of a
consumer group 25 and 113; 100 for a topic id that no topic has; 14 where the metadata store
does not answer, as every client tries again then, and several give up at 15 here.

Notes by version: all partitions (null) from 2, with an error of the group as a whole; up to 7
that error stands at each partition too, because aiokafka looks only there, and takes an answer
without partitions, as Kafka gives it, for "nothing committed"; leader epochs from 5; stable
offsets on request from 7; many groups from 8; the member's id and epoch from 9; topic ids in
place of names from 10, where offsets of topics that are gone are left out of "all".

Left out: waiting for offsets of open transactions (88), as there are none.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headwater.broker.dispatch import Api
from headwater.broker.group_topics import FIRST_VERSION_WITH_IDS, find_topic, naming
from headwater.broker.replies import Values
from headwater.broker.services import Call, Services
from headwater.engine import Topic
from headwater.errors import CoordinatorNotAvailable, KafkaError
from headwater.groups.requests import CommittedOffset, Partition
from headwater.wire.api_versions import ApiKey
from headwater.wire.error_codes import Code

_FIRST_VERSION_WITH_GROUPS: Final = 8
_NOTHING: Final = CommittedOffset()

Named = list[tuple[Any, Topic | None]]
"""Elements of the request with the topics that they are about."""


async def handle(services: Services, request: Any, call: Call) -> Values:
    """Groups are asked side by side; each has its own error."""
    by_id = call.version >= FIRST_VERSION_WITH_IDS
    if call.version >= _FIRST_VERSION_WITH_GROUPS:
        return {
            "groups": await asyncio.gather(
                *(_fetch(services, group, by_id=by_id) for group in request.groups)
            )
        }
    reply = await _fetch(services, request, by_id=False)
    if code := reply["error_code"]:
        reply["topics"] = [_refusal(topic, code) for topic in request.topics or ()]
    return reply


async def _fetch(services: Services, asked: Any, *, by_id: bool) -> Values:
    reply: Values = {"group_id": asked.group_id, "error_code": 0, "topics": ()}
    member = (getattr(asked, "member_id", None), getattr(asked, "member_epoch", -1))
    try:
        if asked.topics is None:
            code, offsets = await services.groups.fetch(
                asked.group_id, None, member_id=member[0], epoch=member[1]
            )
            topics = await _all(services, offsets, by_id=by_id)
        else:
            named = [
                (topic, await find_topic(services, topic.topic_id) if by_id else None)
                for topic in asked.topics
            ]
            code, offsets = await services.groups.fetch(
                asked.group_id, _wanted(named, by_id=by_id), member_id=member[0], epoch=member[1]
            )
            topics = [_topic(one, topic, offsets, by_id=by_id) for one, topic in named]
    except CoordinatorNotAvailable:
        return reply | {"error_code": Code.COORDINATOR_LOAD_IN_PROGRESS}
    except KafkaError as error:
        return reply | {"error_code": error.code}
    return reply | ({"error_code": code} if code else {"topics": topics})


def _refusal(asked: Any, code: int) -> Values:
    rows = [_show(index, _NOTHING, code) for index in asked.partition_indexes]
    return {"name": asked.name, "partitions": rows}


def _wanted(named: Named, *, by_id: bool) -> list[Partition]:
    return [
        (name, index)
        for asked, topic in named
        if (name := _name(asked, topic, by_id=by_id)) is not None
        for index in asked.partition_indexes
    ]


def _name(asked: Any, topic: Topic | None, *, by_id: bool) -> str | None:
    if not by_id:
        return str(asked.name)
    return None if topic is None else topic.name


def _topic(
    asked: Any, topic: Topic | None, offsets: Mapping[Partition, CommittedOffset], *, by_id: bool
) -> Values:
    name = _name(asked, topic, by_id=by_id)
    rows = [
        _show(index, _NOTHING, Code.UNKNOWN_TOPIC_ID)
        if name is None
        else _show(index, offsets.get((name, index), _NOTHING))
        for index in asked.partition_indexes
    ]
    return {**naming(asked, by_id=by_id), "partitions": rows}


async def _all(
    services: Services, offsets: Mapping[Partition, CommittedOffset], *, by_id: bool
) -> Iterable[Values]:
    rows: dict[str, list[Values]] = {}
    for (name, index), offset in offsets.items():
        rows.setdefault(name, []).append(_show(index, offset))
    topics: list[Values] = []
    for name, partitions in rows.items():
        topic: Values = {"name": name, "partitions": partitions}
        if by_id:
            found = await find_topic(services, name)
            if found is None:
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


API = Api(ApiKey.OFFSET_FETCH, "OffsetFetch", handle=handle)
