"""OffsetCommit, OffsetFetch and OffsetDelete between the wire and the groups."""

from collections.abc import AsyncIterator, Iterator
from itertools import chain, repeat
from typing import Any
from uuid import UUID

import pytest

from headwater.errors import CoordinatorNotAvailable, NotCoordinator
from headwater.groups.requests import CommittedOffset
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.fake_groups import FakeGroups
from tests.support.broker.running import RunningBroker, batch, produce_fields, running_broker

NO_SUCH_ID = UUID(int=5)


@pytest.fixture
def groups() -> FakeGroups:
    return FakeGroups()


@pytest.fixture
async def broker(groups: FakeGroups) -> AsyncIterator[RunningBroker]:
    async with running_broker(groups=groups) as running:
        yield running


def commit_fields(version: int, topics: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id_or_member_epoch": 3,
        "member_id": "m",
        "topics": topics,
    }
    if version >= 7:
        fields["group_instance_id"] = "i"
    return fields | more


def commit_row(index: int, offset: int, metadata: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset,
        "committed_metadata": metadata,
        **more,
    }


def codes(reply: Any) -> list[tuple[Any, list[tuple[int, int]]]]:
    return [
        (
            getattr(topic, "name", None) or getattr(topic, "topic_id", None),
            [(one.partition_index, int(one.error_code)) for one in topic.partitions],
        )
        for topic in reply.topics
    ]


@pytest.mark.parametrize("version", range(2, 10))
async def test_commits_by_name_reach_the_group_and_unknown_partitions_get_3(
    broker: RunningBroker, groups: FakeGroups, version: int
) -> None:
    await broker.create_topic("t", 2)
    epoch = {"committed_leader_epoch": 7} if version >= 6 else {}
    topics = [
        {"name": "t", "partitions": [commit_row(1, 10, "note", **epoch), commit_row(2, 11)]},
        {"name": "nope", "partitions": [commit_row(0, 12)]},
    ]
    reply = await broker.call(ApiKey.OFFSET_COMMIT, version, **commit_fields(version, topics))
    assert codes(reply) == [
        ("t", [(1, Code.NONE), (2, Code.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("nope", [(0, Code.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    ((_, request),) = groups.asked
    assert (request.group, request.member_id, request.epoch) == ("g", "m", 3)
    assert request.instance_id == ("i" if version >= 7 else None)
    assert request.version == version
    assert list(request.offsets) == [("t", 1)]
    offset = request.offsets["t", 1]
    assert (offset.offset, offset.metadata, offset.expires_ms) == (10, "note", None)
    assert offset.leader_epoch == (7 if version >= 6 else -1)


async def test_commits_by_id_distinguish_unknown_topics_and_partitions(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    topic = await broker.create_topic("t")
    topics: list[dict[str, Any]] = [
        {"topic_id": topic, "partitions": [commit_row(0, 10), commit_row(1, 11)]},
        {"topic_id": NO_SUCH_ID, "partitions": [commit_row(0, 12)]},
        {"topic_id": None, "partitions": [commit_row(0, 13)]},
    ]
    reply = await broker.call(ApiKey.OFFSET_COMMIT, 10, **commit_fields(10, topics))
    assert codes(reply) == [
        (topic, [(0, Code.NONE), (1, Code.UNKNOWN_TOPIC_OR_PARTITION)]),
        (NO_SUCH_ID, [(0, Code.UNKNOWN_TOPIC_ID)]),
        (None, [(0, Code.UNKNOWN_TOPIC_ID)]),
    ]
    assert list(groups.asked[0][1].offsets) == [("t", 0)]


async def test_old_clients_choose_how_long_their_offsets_are_kept(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    await broker.create_topic("t")
    topics = [{"name": "t", "partitions": [commit_row(0, 1)]}]
    await broker.call(ApiKey.OFFSET_COMMIT, 2, **commit_fields(2, topics), retention_time=5000)
    offset = groups.asked[0][1].offsets["t", 0]
    assert offset.expires_ms == offset.committed_ms + 5000


async def test_a_commit_of_unknown_partitions_alone_does_not_reach_the_group(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    topics = [{"name": "nope", "partitions": [commit_row(0, 1)]}]
    assert codes(await broker.call(ApiKey.OFFSET_COMMIT, 9, **commit_fields(9, topics))) == [
        ("nope", [(0, Code.UNKNOWN_TOPIC_OR_PARTITION)])
    ]
    assert groups.asked == []


async def test_each_partition_gets_the_groups_error(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    await broker.create_topic("t", 2)
    topics = [{"name": "t", "partitions": [commit_row(0, 1), commit_row(1, 1)]}]
    groups.answers["commit"] = {("t", 0): Code.OFFSET_METADATA_TOO_LARGE, ("t", 1): 0}
    reply = await broker.call(ApiKey.OFFSET_COMMIT, 9, **commit_fields(9, topics))
    assert codes(reply) == [("t", [(0, Code.OFFSET_METADATA_TOO_LARGE), (1, Code.NONE)])]
    groups.answers["commit"] = NotCoordinator("elsewhere")
    reply = await broker.call(ApiKey.OFFSET_COMMIT, 9, **commit_fields(9, topics))
    assert codes(reply) == [("t", [(0, Code.NOT_COORDINATOR), (1, Code.NOT_COORDINATOR)])]


OFFSETS = {
    ("t", 0): CommittedOffset(offset=5, leader_epoch=2, metadata="note"),
    ("gone", 0): CommittedOffset(offset=6),
}


def fetch_fields(version: int, topics: list[dict[str, Any]] | None) -> dict[str, Any]:
    if version < 7:
        return {"group_id": "g", "topics": topics}
    if version == 7:
        return {"group_id": "g", "topics": topics, "require_stable": True}
    return {"groups": [{"group_id": "g", "topics": topics}], "require_stable": True}


def fetched(reply: Any) -> list[tuple[Any, list[tuple[int, int, str, int]]]]:
    topics = reply.groups[0].topics if hasattr(reply, "groups") else reply.topics
    return [
        (
            getattr(topic, "name", None) or getattr(topic, "topic_id", None),
            [
                (one.partition_index, one.committed_offset, one.metadata, int(one.error_code))
                for one in topic.partitions
            ],
        )
        for topic in topics
    ]


@pytest.mark.parametrize("version", range(1, 10))
async def test_offsets_are_fetched_by_name_in_every_version(
    broker: RunningBroker, groups: FakeGroups, version: int
) -> None:
    groups.answers["fetch"] = (0, OFFSETS)
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    reply = await broker.call(ApiKey.OFFSET_FETCH, version, **fetch_fields(version, topics))
    assert fetched(reply) == [("t", [(0, 5, "note", 0), (1, -1, "", 0)])]
    if 5 <= version <= 7:
        assert reply.topics[0].partitions[0].committed_leader_epoch == 2
    assert groups.asked == [("fetch", "g", [("t", 0), ("t", 1)], None, -1)]


@pytest.mark.parametrize("version", range(2, 10))
async def test_all_offsets_are_fetched_with_null(
    broker: RunningBroker, groups: FakeGroups, version: int
) -> None:
    groups.answers["fetch"] = (0, OFFSETS)
    reply = await broker.call(ApiKey.OFFSET_FETCH, version, **fetch_fields(version, None))
    assert fetched(reply) == [("t", [(0, 5, "note", 0)]), ("gone", [(0, 6, "", 0)])]
    assert groups.asked == [("fetch", "g", None, None, -1)]


async def test_offsets_are_fetched_by_id(broker: RunningBroker, groups: FakeGroups) -> None:
    topic = await broker.create_topic("t")
    groups.answers["fetch"] = (0, OFFSETS)
    topics = [
        {"topic_id": topic, "partition_indexes": [0]},
        {"topic_id": NO_SUCH_ID, "partition_indexes": [3]},
    ]
    reply = await broker.call(ApiKey.OFFSET_FETCH, 10, **fetch_fields(10, topics))
    assert fetched(reply) == [(topic, [(0, 5, "note", 0)]), (NO_SUCH_ID, [(3, -1, "", 100)])]
    assert groups.asked == [("fetch", "g", [("t", 0)], None, -1)]
    reply = await broker.call(ApiKey.OFFSET_FETCH, 10, **fetch_fields(10, None))
    assert fetched(reply) == [(topic, [(0, 5, "note", 0)])]


@pytest.mark.parametrize("version", range(1, 11))
async def test_each_version_of_offset_fetch_has_the_groups_error_in_its_own_field(
    broker: RunningBroker, groups: FakeGroups, version: int
) -> None:
    topic = await broker.create_topic("t")
    name = {"topic_id": topic} if version >= 10 else {"name": "t"}
    groups.answers["fetch"] = NotCoordinator("elsewhere")
    reply = await broker.call(
        ApiKey.OFFSET_FETCH, version, **fetch_fields(version, [{**name, "partition_indexes": [0]}])
    )
    if version < 8:
        assert fetched(reply) == [("t", [(0, -1, "", 16)])]
        assert getattr(reply, "error_code", Code.NOT_COORDINATOR) == Code.NOT_COORDINATOR
    else:
        (group,) = reply.groups
        assert (group.group_id, group.error_code, group.topics) == ("g", Code.NOT_COORDINATOR, ())


async def test_offset_fetch_is_retried_when_the_store_does_not_answer(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    groups.answers["fetch"] = CoordinatorNotAvailable("the store does not answer")
    topics = [{"name": "t", "partition_indexes": [0]}]
    reply = await broker.call(ApiKey.OFFSET_FETCH, 3, **fetch_fields(3, topics))
    assert reply.error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    assert fetched(reply) == [("t", [(0, -1, "", 14)])]


async def test_aiokafka_keeps_its_position_when_the_coordinator_moves(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    await broker.create_topic("t")
    await broker.call(ApiKey.PRODUCE, 9, **produce_fields("t", batch(b"0", b"1", b"2")))
    answers: Iterator[Any] = chain(
        [NotCoordinator("elsewhere")], repeat((0, {("t", 0): CommittedOffset(offset=2)}))
    )

    def fetch(*_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    groups.answers["fetch"] = fetch
    consumer = AIOKafkaConsumer(
        bootstrap_servers=f"127.0.0.1:{broker.port}",
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert (await consumer.getone()).offset == 2


async def test_groups_of_one_fetch_have_their_own_errors_and_members(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    groups.answers["fetch"] = lambda group, *_: (0, OFFSETS) if group == "g" else (113, {})
    asked = [
        {"group_id": "g", "member_id": "m", "member_epoch": 4, "topics": None},
        {"group_id": "h", "member_id": "n", "member_epoch": 5, "topics": []},
    ]
    reply = await broker.call(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False)
    assert [(group.group_id, group.error_code) for group in reply.groups] == [
        ("g", Code.NONE),
        ("h", Code.STALE_MEMBER_EPOCH),
    ]
    assert groups.asked == [("fetch", "g", None, "m", 4), ("fetch", "h", [], "n", 5)]


async def test_offsets_of_existing_partitions_are_deleted(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    await broker.create_topic("t", 2)
    topics = [
        {"name": "t", "partitions": [{"partition_index": 1}, {"partition_index": 2}]},
        {"name": "nope", "partitions": [{"partition_index": 0}]},
    ]
    reply = await broker.call(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    assert reply.error_code == 0
    assert codes(reply) == [
        ("t", [(1, Code.NONE), (2, Code.UNKNOWN_TOPIC_OR_PARTITION)]),
        ("nope", [(0, Code.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    assert groups.asked == [("delete_offsets", "g", [("t", 1)])]
    for answer, code in (((69, {}), 69), (NotCoordinator("elsewhere"), 16)):
        groups.answers["delete_offsets"] = answer
        reply = await broker.call(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
        assert (reply.error_code, reply.topics) == (code, ())
    assert (
        await broker.call(ApiKey.OFFSET_DELETE, 0, group_id="", topics=[])
    ).error_code == Code.INVALID_GROUP_ID


async def test_a_group_that_is_named_twice_is_refused_and_not_fetched(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    asked = [
        {"group_id": name, "topics": None, "member_id": None, "member_epoch": -1}
        for name in ("g", "h", "g", *(f"n{number}" for number in range(300)))
    ]
    reply = await broker.call(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False)
    codes = {group.group_id: int(group.error_code) for group in reply.groups}
    assert (codes["g"], codes["h"], len(reply.groups)) == (Code.INVALID_REQUEST, 0, 302)
    assert "g" not in {call[1] for call in groups.asked}


async def test_a_partition_that_is_named_twice_is_looked_up_once(
    broker: RunningBroker, groups: FakeGroups
) -> None:
    groups.answers["fetch"] = (0, OFFSETS)
    topics = [{"name": "t", "partition_indexes": [1, 0, 1]}]
    reply = await broker.call(ApiKey.OFFSET_FETCH, 9, **fetch_fields(9, topics))
    assert fetched(reply) == [("t", [(1, -1, "", 0), (0, 5, "note", 0), (1, -1, "", 0)])]
    assert groups.asked == [("fetch", "g", [("t", 1), ("t", 0)], None, -1)]
