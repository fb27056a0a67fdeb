"""The APIs of KIP-848 groups between the wire and the groups, in every version."""

from typing import Any
from uuid import UUID

import pytest

from headwater.groups.requests import (
    ClientIdentity,
    ConsumerDescription,
    ConsumerHeartbeatReply,
    ConsumerMemberDescription,
)
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.scripted import Fixture

ALL_OPERATIONS = 3400


def consumer_fields(version: int = 1, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 1000,
        "subscribed_topic_names": ["t"],
        "server_assignor": None,
        "topic_partitions": [],
    }
    if version >= 1:
        fields["subscribed_topic_regex"] = None
    return fields | more


@pytest.mark.parametrize("version", [0, 1])
async def test_consumer_heartbeats_carry_partitions_both_ways(given: Fixture, version: int) -> None:
    topic = UUID(int=7)
    given.groups.answers["consumer_heartbeat"] = ConsumerHeartbeatReply(
        member_id="m", epoch=4, heartbeat_interval_ms=5000, assignment={topic: (0, 2)}
    )
    owned = [{"topic_id": topic, "partitions": [2, 0]}]
    reply = await given.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        **consumer_fields(version, member_epoch=3, topic_partitions=owned, rack_id="r"),
    )
    assert (reply.error_code, reply.member_id, reply.member_epoch) == (0, "m", 4)
    assert reply.heartbeat_interval.total_seconds() == 5
    (shown,) = reply.assignment.topic_partitions
    assert (shown.topic_id, shown.partitions) == (topic, (0, 2))
    ((_, group, request),) = given.groups.asked
    assert (group, request.owned, request.rack_id) == ("g", {topic: (0, 2)}, "r")
    assert (request.version, request.topic_names) == (version, ("t",))


async def test_what_a_consumer_heartbeat_leaves_out_stays_as_before(given: Fixture) -> None:
    reply = await given.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        **consumer_fields(
            member_epoch=3,
            rebalance_timeout=-1,
            subscribed_topic_names=None,
            topic_partitions=None,
        ),
    )
    assert reply.assignment is None
    ((_, _, request),) = given.groups.asked
    assert (request.topic_names, request.owned, request.rebalance_timeout_ms) == (None, None, -1)


NOTHING_SUBSCRIBED = (
    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
)
OWNED = [{"topic_id": UUID(int=7), "partitions": [0]}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": OWNED}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            NOTHING_SUBSCRIBED,
        ),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
async def test_consumer_heartbeats_that_contradict_themselves_are_refused_in_kafkas_words(
    given: Fixture, fields: dict[str, Any], message: str
) -> None:
    reply = await given.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_fields(**fields))
    assert (reply.error_code, reply.error_message) == (Code.INVALID_REQUEST, message)
    assert (reply.member_id, reply.member_epoch, reply.assignment) == (None, 0, None)
    assert given.groups.asked == []


async def test_first_consumer_version_lets_the_group_choose_the_members_id(
    given: Fixture,
) -> None:
    assert (
        await given.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, **consumer_fields(0, member_id=""))
    ).error_code == 0
    reply = await given.call(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, **consumer_fields(0, member_id="", member_epoch=5)
    )
    assert reply.error_message == "MemberId can't be empty."


@pytest.mark.parametrize("version", [0, 1])
async def test_consumer_groups_are_described_with_topic_names(given: Fixture, version: int) -> None:
    topic = await given.broker.create_topic("t", 2)
    member = ConsumerMemberDescription(
        member_id="m",
        instance_id=None,
        rack_id="r",
        epoch=4,
        client=ClientIdentity("app", "/10.0.0.1"),
        topic_names=("t",),
        topic_regex="",
        assigned={topic: (0,)},
        target={topic: (0, 1)},
        member_type=1,
    )
    found = ConsumerDescription(
        state="Reconciling", epoch=4, assignment_epoch=3, assignor="uniform", members=(member,)
    )
    missing = ConsumerDescription(
        error=Code.GROUP_ID_NOT_FOUND, message="Group x not found.", state=""
    )
    given.groups.answers["describe_consumer"] = lambda group: found if group == "g" else missing
    reply = await given.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        version,
        group_ids=["g", "x", ""],
        include_authorized_operations=True,
    )
    group, absent, nameless = reply.groups
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 4, 3)
    assert (group.assignor_name, group.authorized_operations) == ("uniform", ALL_OPERATIONS)
    (shown,) = group.members
    assert (shown.member_epoch, shown.rack_id, shown.subscribed_topic_names) == (4, "r", ("t",))
    assert [
        (one.topic_id, one.topic_name, one.partitions)
        for one in (*shown.assignment.topic_partitions, *shown.target_assignment.topic_partitions)
    ] == [(topic, "t", (0,)), (topic, "t", (0, 1))]
    assert getattr(shown, "member_type", 1) == 1
    assert (absent.error_code, absent.error_message) == (
        Code.GROUP_ID_NOT_FOUND,
        "Group x not found.",
    )
    assert nameless.error_code == Code.INVALID_GROUP_ID
