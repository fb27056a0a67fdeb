"""Refused requests to consumer groups: Kafka's codes and words, and nothing stored."""

from random import Random
from uuid import UUID

import pytest

from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.requests import ConsumerHeartbeatRequest
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code
from tests.support.groups.consumer_world import CLIENT, ConsumerGroupWorld


def request(
    member_id: str = "a", epoch: int = 0, *, full: bool | None = None, **changes: object
) -> ConsumerHeartbeatRequest:
    fields: dict[str, object] = {"client": CLIENT, "member_id": member_id, "epoch": epoch}
    if full if full is not None else epoch == 0:
        fields |= {"rebalance_timeout_ms": 1000, "topic_names": ("t",), "owned": {}}
    return ConsumerHeartbeatRequest(**(fields | changes))  # type: ignore[arg-type]  # by name


REFUSED = [
    ("empty member id", request(""), Code.INVALID_REQUEST, "MemberId can't be empty."),
    (
        "empty member id of an old client that is a member",
        request("", 1, version=0),
        Code.INVALID_REQUEST,
        "MemberId can't be empty.",
    ),
    (
        "empty instance id",
        request(instance_id=" "),
        Code.INVALID_REQUEST,
        "InstanceId can't be empty.",
    ),
    ("empty rack", request(rack_id=""), Code.INVALID_REQUEST, "RackId can't be empty."),
    (
        "join without rebalance timeout",
        request(rebalance_timeout_ms=-1),
        Code.INVALID_REQUEST,
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    (
        "join without owned partitions",
        request(owned=None),
        Code.INVALID_REQUEST,
        "TopicPartitions must be empty when (re-)joining.",
    ),
    (
        "join without subscription",
        request(topic_names=None),
        Code.INVALID_REQUEST,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    (
        "dynamic member that leaves for a while",
        request("a", -2),
        Code.INVALID_REQUEST,
        "InstanceId can't be null.",
    ),
    ("epoch below all", request("a", -3), Code.INVALID_REQUEST, "MemberEpoch is invalid."),
    (
        "assignor that there is not",
        request(assignor="sticky"),
        Code.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor sticky is not supported. Supported assignors: uniform, range.",
    ),
    (
        "faulty pattern",
        request("new", topic_regex="a("),
        Code.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `a(` is not a valid regular expression: missing ): a(.",
    ),
    (
        "stranger",
        request("x", 1),
        Code.UNKNOWN_MEMBER_ID,
        "Member x is not a member of group g.",
    ),
    (
        "stranger that leaves",
        request("x", -1),
        Code.UNKNOWN_MEMBER_ID,
        "Member x is not a member of group g.",
    ),
    (
        "unknown instance",
        request("x", 1, instance_id="j"),
        Code.UNKNOWN_MEMBER_ID,
        "Instance id j is unknown.",
    ),
    (
        "unknown instance that leaves",
        request("x", -1, instance_id="j"),
        Code.UNKNOWN_MEMBER_ID,
        "Instance id j is unknown.",
    ),
    (
        "epoch from the future",
        request("a", 9),
        Code.FENCED_MEMBER_EPOCH,
        (
            "The consumer group member has a greater member epoch (9) than the one known by the "
            "group coordinator (2). The member must abandon all its partitions and rejoin."
        ),
    ),
    (
        "epoch from long ago",
        request("a", 1),
        Code.FENCED_MEMBER_EPOCH,
        (
            "The consumer group member has a smaller member epoch (1) than the one known by the "
            "group coordinator (2). The member must abandon all its partitions and rejoin."
        ),
    ),
    (
        "instance of another member",
        request("x", 2, instance_id="i"),
        Code.FENCED_INSTANCE_ID,
        "Static member x with instance id i was fenced by member s.",
    ),
    (
        "instance of another member that leaves",
        request("x", -2, instance_id="i"),
        Code.FENCED_INSTANCE_ID,
        "Static member x with instance id i was fenced by member s.",
    ),
    (
        "instance that is in use",
        request("x", instance_id="i"),
        Code.UNRELEASED_INSTANCE_ID,
        (
            "Static member x with instance id i cannot join the group because the instance id is "
            "owned by s member."
        ),
    ),
    (
        "one member too many",
        request("x"),
        Code.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 2 members.",
    ),
]


@pytest.mark.parametrize(
    ("bad", "code", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_bad_heartbeat_is_refused_and_changes_nothing(
    bad: ConsumerHeartbeatRequest, code: Code, message: str
) -> None:
    full = code == Code.GROUP_MAX_SIZE_REACHED
    world = ConsumerGroupWorld(GroupSettings(max_size=2 if full else 100), t=4)
    world.join("a")
    world.join("s", instance="i")
    world.beat("a", 1)
    world.beat("a", 1, world.partitions("t", 0, 1))
    world.beat("s", 2, instance="i")
    before = world.group.describe(world.topics)
    reply = world.send(bad)
    assert (reply.error, reply.message) == (code, message)
    assert world.last.records == {}
    assert world.group.describe(world.topics) == before


def test_empty_group_id_is_an_invalid_request() -> None:
    world = ConsumerGroupWorld(t=1)
    world.group = ConsumerGroup("", world.settings, Random(1))
    assert world.join("a").message == "GroupId can't be empty."


COMMITS = [
    ("member with its epoch", "a", 2, Code.NONE),
    ("member with another epoch", "a", 1, Code.STALE_MEMBER_EPOCH),
    ("stranger", "x", 2, Code.UNKNOWN_MEMBER_ID),
    ("client without membership", "", -1, Code.UNKNOWN_MEMBER_ID),
]


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [case[1:] for case in COMMITS],
    ids=[case[0] for case in COMMITS],
)
def test_commits_and_fetches_are_checked_by_member_and_epoch(
    member_id: str, epoch: int, code: Code
) -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    world.join("b")
    world.beat("a", 1)
    world.beat("a", 1, world.partitions("t", 0))
    assert world.group.check_commit(member_id, None, epoch, world.now) == code
    assert world.group.check_fetch(member_id, epoch) == code


def test_every_client_may_commit_to_an_empty_group_and_fetch_without_a_member_id() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    assert world.group.check_fetch(None, -1) == Code.NONE
    world.leave("a")
    assert world.group.check_commit("", None, -1, world.now) == Code.NONE


def test_commit_with_an_earlier_epoch_counts_for_partitions_assigned_then_and_now() -> None:
    world = ConsumerGroupWorld(t=2, u=1)
    world.join("a")
    world.join("b")
    world.beat("a", 1)
    world.beat("a", 1, world.partitions("t", 0))
    world.beat("a", 2, names=["t", "u"])
    a, _ = world.group.describe(world.topics).members
    assert (a.epoch, a.assigned) == (3, world.partitions("t", 0) | world.partitions("u", 0))
    t, u = world.topics.of("t").id, world.topics.of("u").id

    def code(member_id: str, epoch: int, topic: UUID, partition: int) -> int:
        return world.group.check_late_commit(member_id, epoch, topic, partition)

    assert code("a", 1, t, 0) == Code.NONE
    assert code("a", 2, u, 0) == Code.STALE_MEMBER_EPOCH
    assert code("a", 1, t, 1) == Code.STALE_MEMBER_EPOCH
    assert code("a", 4, t, 0) == Code.STALE_MEMBER_EPOCH
    assert code("x", 1, t, 0) == Code.UNKNOWN_MEMBER_ID
