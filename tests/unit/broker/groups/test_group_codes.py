"""Kafka's error codes for illegal group requests, from a whole broker.

Every code and message here was given by a live Apache Kafka 4.3.1 to the same request.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.serving import call, create_topic, serving

MEMBER = {"generation_id": 1, "member_id": "m"}


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(tmp_path) as address:
        await create_topic(address, "t", 2)
        yield address


async def commit(broker: str, group: str, offset: int = 5, **fields: Any) -> int:
    given = {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "committed_metadata": "",
        **fields,
    }
    row = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_metadata": given.pop("committed_metadata"),
    }
    topics = [{"name": "t", "partitions": [row]}]
    reply = await call(broker, ApiKey.OFFSET_COMMIT, 9, group_id=group, topics=topics, **given)
    return int(reply.topics[0].partitions[0].error_code)


async def committed(broker: str, group: str) -> dict[int, int]:
    reply = await call(
        broker,
        ApiKey.OFFSET_FETCH,
        8,
        groups=[{"group_id": group, "topics": None}],
        require_stable=False,
    )
    (found,) = reply.groups
    assert found.error_code == 0
    return {
        one.partition_index: one.committed_offset
        for topic in found.topics
        for one in topic.partitions
    }


def join_fields(**more: Any) -> dict[str, Any]:
    return {
        "group_id": "j",
        "session_timeout": 10_000,
        "rebalance_timeout": 5000,
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(10)}],
        "reason": None,
        **more,
    }


def consumer_fields(**more: Any) -> dict[str, Any]:
    return {
        "group_id": "c",
        "member_id": "mm",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 1000,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
        **more,
    }


async def test_clients_without_a_membership_commit_to_any_group(broker: str) -> None:
    for group in ("g", ""):
        assert await commit(broker, group) == 0
        assert await committed(broker, group) == {0: 5}
    assert await commit(broker, "other", member_id="m", group_instance_id="i") == 0
    assert await committed(broker, "never") == {}


async def test_commits_are_refused_with_kafkas_codes(broker: str) -> None:
    await commit(broker, "g")
    assert (
        await commit(broker, "g", committed_metadata="y" * 5000) == Code.OFFSET_METADATA_TOO_LARGE
    )
    outsider: dict[str, Any] = {"generation_id_or_member_epoch": 3, "member_id": "m"}
    assert await commit(broker, "g", **outsider) == Code.UNKNOWN_MEMBER_ID
    assert await commit(broker, "never", **outsider) == Code.GROUP_ID_NOT_FOUND
    assert await committed(broker, "g") == {0: 5}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, Code.INVALID_GROUP_ID),
        ({"session_timeout": 1}, Code.INVALID_SESSION_TIMEOUT),
        ({"member_id": "xx"}, Code.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_joins_are_refused_with_kafkas_codes(
    broker: str, fields: dict[str, Any], code: int
) -> None:
    reply = await call(broker, ApiKey.JOIN_GROUP, 9, **join_fields(**fields))
    assert (reply.error_code, reply.generation_id) == (code, -1)
    assert reply.member_id == fields.get("member_id", "")


async def test_a_dynamic_member_is_given_its_id_and_joins_with_it(broker: str) -> None:
    first = await call(broker, ApiKey.JOIN_GROUP, 9, **join_fields())
    assert first.error_code == Code.MEMBER_ID_REQUIRED
    assert first.member_id.startswith("test-")
    joined = await call(broker, ApiKey.JOIN_GROUP, 9, **join_fields(member_id=first.member_id))
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert (joined.leader, joined.protocol_name) == (joined.member_id, "range")
    member = {
        "group_id": "j",
        "generation_id": 1,
        "member_id": joined.member_id,
        "group_instance_id": None,
    }
    synced = await call(
        broker,
        ApiKey.SYNC_GROUP,
        5,
        **member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": b"mine"}],
    )
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert (await call(broker, ApiKey.HEARTBEAT, 4, **member)).error_code == 0
    stale = member | {"generation_id": 0}
    assert (await call(broker, ApiKey.HEARTBEAT, 4, **stale)).error_code == Code.ILLEGAL_GENERATION
    assert await commit(broker, "j") == Code.UNKNOWN_MEMBER_ID
    mine: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert await commit(broker, "j", **mine) == 0
    described = await call(
        broker, ApiKey.DESCRIBE_GROUPS, 6, groups=["j"], include_authorized_operations=False
    )
    assert (described.groups[0].group_state, described.groups[0].protocol_data) == (
        "Stable", "range"
    )  # fmt: skip
    deleted = await call(broker, ApiKey.DELETE_GROUPS, 2, groups_names=["j"])
    assert deleted.results[0].error_code == Code.NON_EMPTY_GROUP


@pytest.mark.parametrize("group", ["never", "g"])
async def test_requests_without_a_membership_get_unknown_member_id(broker: str, group: str) -> None:
    await commit(broker, "g")
    assert (
        await call(broker, ApiKey.HEARTBEAT, 0, group_id=group, **MEMBER)
    ).error_code == Code.UNKNOWN_MEMBER_ID
    synced = await call(broker, ApiKey.SYNC_GROUP, 0, group_id=group, **MEMBER, assignments=[])
    assert synced.error_code == Code.UNKNOWN_MEMBER_ID
    assert (
        await call(broker, ApiKey.LEAVE_GROUP, 0, group_id=group, member_id="m")
    ).error_code == Code.UNKNOWN_MEMBER_ID
    members = [{"member_id": "m"}, {"member_id": "", "group_instance_id": "i"}]
    left = await call(broker, ApiKey.LEAVE_GROUP, 5, group_id=group, members=members)
    assert left.error_code == 0
    assert [one.error_code for one in left.members] == [
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
    ]


async def test_groups_with_offsets_alone_are_listed_described_and_deleted(broker: str) -> None:
    await commit(broker, "g")
    listed = await call(broker, ApiKey.LIST_GROUPS, 5, states_filter=["EMPTY"], types_filter=[])
    assert [(one.group_id, one.group_state, one.group_type) for one in listed.groups] == [
        ("g", "Empty", "classic")
    ]
    described = await call(
        broker, ApiKey.DESCRIBE_GROUPS, 6, groups=["g", "never"], include_authorized_operations=True
    )
    assert [(one.error_code, one.group_state, one.error_message) for one in described.groups] == [
        (Code.NONE, "Empty", None),
        (Code.GROUP_ID_NOT_FOUND, "Dead", "Group never not found."),
    ]
    described = await call(
        broker,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["g", "never"],
        include_authorized_operations=True,
    )
    assert [(one.error_code, one.error_message) for one in described.groups] == [
        (Code.GROUP_ID_NOT_FOUND, "Group g is not a consumer group."),
        (Code.GROUP_ID_NOT_FOUND, "Group never not found."),
    ]
    deleted = await call(broker, ApiKey.DELETE_GROUPS, 2, groups_names=["g", "never"])
    assert [one.error_code for one in deleted.results] == [Code.NONE, Code.GROUP_ID_NOT_FOUND]
    assert await committed(broker, "g") == {}


async def test_offsets_of_existing_groups_are_deleted(broker: str) -> None:
    await commit(broker, "g")
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    assert (
        await call(broker, ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
    ).error_code == 0
    assert await committed(broker, "g") == {}
    reply = await call(broker, ApiKey.OFFSET_DELETE, 0, group_id="never", topics=topics)
    assert (reply.error_code, reply.topics) == (Code.GROUP_ID_NOT_FOUND, ())


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"member_epoch": 5}, Code.GROUP_ID_NOT_FOUND, "Consumer group c not found."),
        (
            {"server_assignor": "zz"},
            Code.UNSUPPORTED_ASSIGNOR,
            "ServerAssignor zz is not supported. Supported assignors: uniform, range.",
        ),
    ],
)
async def test_consumer_heartbeats_are_refused_with_kafkas_codes(
    broker: str, fields: dict[str, Any], code: int, message: str
) -> None:
    reply = await call(broker, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_fields(**fields))
    assert (reply.error_code, reply.error_message) == (code, message)


async def test_an_illegal_pattern_is_refused(broker: str) -> None:
    fields = consumer_fields(subscribed_topic_regex="(", subscribed_topic_names=None)
    assert (
        await call(broker, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **fields)
    ).error_code == Code.INVALID_REGULAR_EXPRESSION


async def test_a_consumer_group_lives_from_its_first_heartbeat_to_its_deletion(broker: str) -> None:
    joined = await call(broker, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_fields())
    assert (joined.error_code, joined.member_id) == (0, "mm")
    assert [one.partitions for one in joined.assignment.topic_partitions] == [(0, 1)]
    described = await call(
        broker,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        group_ids=["c"],
        include_authorized_operations=False,
    )
    (group,) = described.groups
    assert (group.group_state, group.assignor_name) == ("Stable", "uniform")
    assert [member.client_host for member in group.members] == ["/127.0.0.1"]
    classic = await call(
        broker, ApiKey.DESCRIBE_GROUPS, 6, groups=["c"], include_authorized_operations=False
    )
    assert classic.groups[0].error_message == "Group c is not a classic group."
    listed = await call(broker, ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["Consumer"])
    assert [(one.group_id, one.protocol_type) for one in listed.groups] == [("c", "consumer")]
    assert (await call(broker, ApiKey.DELETE_GROUPS, 2, groups_names=["c"])).results[
        0
    ].error_code == Code.NON_EMPTY_GROUP
    assert await commit(broker, "c") == Code.UNKNOWN_MEMBER_ID
    leave = consumer_fields(member_epoch=-1)
    left = await call(broker, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **leave)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert (await call(broker, ApiKey.DELETE_GROUPS, 2, groups_names=["c"])).results[
        0
    ].error_code == 0
