"""What clients choose about a group is bounded, and a group that exceeds it is refused alone."""

import asyncio
from dataclasses import replace

import pytest

from headwater.errors import CoordinatorLoading, GroupTooLarge, InvalidGroupId
from headwater.groups import runtime
from headwater.groups.bounds import (
    GROUP_ID_MAX_BYTES,
    GROUP_MAX_BYTES,
    MAX_ASSIGNMENT_WORK,
    MAX_PENDING_IDS,
    MAX_TOPICS,
    RECORD_MAX_BYTES,
    VALUE_MAX_BYTES,
)
from headwater.groups.classic.subscription import subscribed_topics
from headwater.groups.consumer import records as stored
from headwater.groups.group import GROUPS
from headwater.groups.requests import CommittedOffset, JoinReply, SyncReply
from headwater.meta.memory import MemoryStore
from headwater.meta.store import Limits
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import DrivenGroup, subscription
from tests.support.groups.cluster import (
    SETTINGS,
    CoordinatorCluster,
    SharedTopics,
    beating,
    committing,
    joining,
    one_node,
    simulated,
)
from tests.support.groups.consumer_mixed import MixedWorld
from tests.support.groups.consumer_mixed import subscription as embedded
from tests.support.groups.consumer_world import ConsumerGroupWorld

LARGE = (("range", b"x" * RECORD_MAX_BYTES),)


def test_classic_member_with_too_much_metadata_is_refused_and_the_group_goes_on() -> None:
    group = DrivenGroup()
    ids = group.stable(2)
    ticket = group.join(protocols=LARGE)
    assert group.answer(ticket, JoinReply).error == Code.UNKNOWN_SERVER_ERROR
    ticket = group.join(ids[1], protocols=LARGE)
    assert group.answer(ticket, JoinReply).error == Code.UNKNOWN_SERVER_ERROR
    assert group.machine.state == "Stable"
    assert [group.heartbeat(member) for member in ids] == [0, 0]


def test_classic_group_accepts_members_up_to_its_bound() -> None:
    group = DrivenGroup()
    metadata = (("range", b"x" * (RECORD_MAX_BYTES - 1_000)),)
    replies = [group.join(protocols=metadata) for _ in range(10)]
    group.pass_time(6)
    codes = [group.answer(ticket, JoinReply).error for ticket in replies]
    room = GROUP_MAX_BYTES // RECORD_MAX_BYTES
    assert codes == [0] * room + [Code.UNKNOWN_SERVER_ERROR] * (10 - room)
    leaver = group.joined(replies[0]).member_id
    group.leave(leaver)
    assert not group.replies.get(group.join(protocols=metadata)), "there is room again"


def test_assignments_that_are_too_large_are_refused_and_the_members_join_again() -> None:
    group = DrivenGroup()
    ids = group.stable(2)
    group.join(ids[0])
    group.join(ids[1])
    group.pass_time(1)
    follower = group.sync(ids[1])
    leader = group.sync(ids[0], {ids[1]: b"x" * RECORD_MAX_BYTES})
    for ticket in (leader, follower):
        assert group.answer(ticket, SyncReply).error == Code.UNKNOWN_SERVER_ERROR
    assert group.machine.state == "PreparingRebalance"
    assert max(map(len, group.records.values())) < RECORD_MAX_BYTES


def test_classic_group_bounds_assigned_ids_that_have_not_joined() -> None:
    group = DrivenGroup()
    for _ in range(MAX_PENDING_IDS):
        reply = group.answer(group.join(known=True, client="c" * 30_000), JoinReply)
        assert reply.error == Code.MEMBER_ID_REQUIRED
        assert len(reply.member_id) < 300
    full = group.answer(group.join(known=True), JoinReply)
    assert full.error == Code.GROUP_MAX_SIZE_REACHED


def test_topics_beyond_the_bound_are_unknown() -> None:
    half = [subscription(*(f"{member}{n}" for n in range(MAX_TOPICS // 2))) for member in "ab"]
    topics = subscribed_topics(half)
    assert topics is not None
    assert len(topics) == MAX_TOPICS
    assert subscribed_topics([*half, subscription("one")]) is None


def test_consumer_member_with_too_large_a_subscription_is_refused_and_the_group_goes_on() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    before = dict(world.records)
    names = [f"{n:0200d}" for n in range(RECORD_MAX_BYTES // 200)]
    for member in ("b", "a"):
        reply = world.join(member, names)
        assert reply.error == Code.UNKNOWN_SERVER_ERROR
        assert "too large" in (reply.message or "")
    assert world.join("b", ["t"] * (MAX_TOPICS + 1)).error == Code.INVALID_REQUEST
    assert world.records == before
    assert world.beat("a", 1).error == 0


def test_consumer_group_bounds_the_names_of_all_members() -> None:
    world = ConsumerGroupWorld(t=1)
    assert world.join("a", [f"a{n}" for n in range(MAX_TOPICS)]).error == 0
    assert world.join("b", ["t"]).error == Code.UNKNOWN_SERVER_ERROR
    assert world.join("b", ["a1", "a2"]).error == 0
    world.restart()
    assert world.join("c", ["t"]).error == Code.UNKNOWN_SERVER_ERROR
    assert world.leave("a") == 0
    assert world.join("c", ["t"]).error == 0


def test_consumer_group_with_more_partitions_than_can_be_assigned_is_refused() -> None:
    most = MAX_ASSIGNMENT_WORK - 1
    world = ConsumerGroupWorld(t=1, huge=most, larger=most + 1)
    assert world.join("a", ["larger"]).error == Code.UNKNOWN_SERVER_ERROR
    assert not world.records
    assert world.join("a", ["t"]).error == 0
    assert world.join("b", ["huge"]).error == Code.UNKNOWN_SERVER_ERROR
    assert world.beat("a", 1).error == 0


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_consumer_group_bounds_the_topics_of_all_members(assignor: str) -> None:
    count = 5_000
    world = ConsumerGroupWorld(None, **{f"t{n}": 1 for n in range(count)})
    codes = []
    for number in range(MAX_ASSIGNMENT_WORK // count + 1):
        left_out = -1 if assignor == "range" else number  # uniform is quick if all are alike
        names = [f"t{n}" for n in range(count) if n != left_out]
        codes.append(world.join(f"m{number}", names, assignor=assignor).error)
    taken = codes.index(Code.UNKNOWN_SERVER_ERROR)
    assert taken > len(codes) // 3
    assert codes == [0] * taken + [Code.UNKNOWN_SERVER_ERROR] * (len(codes) - taken)


def test_many_members_with_equal_subscriptions_are_assigned() -> None:
    count = 5_000
    world = ConsumerGroupWorld(None, **{f"t{n}": 1 for n in range(count)})
    names = [f"t{n}" for n in range(count)]
    for number in range(MAX_ASSIGNMENT_WORK // count + 1):
        assert world.join(f"m{number}", names).error == 0


def test_assignment_stays_when_topics_grow_beyond_what_can_be_assigned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = ConsumerGroupWorld(t=2)
    assert world.join("a").error == 0
    world.topics.put("t", MAX_ASSIGNMENT_WORK + 1)
    for _ in range(3):
        assert world.beat("a", 1).error == 0
    (member,) = world.group.describe(world.topics).members
    assert dict(member.assigned) == world.partitions("t", 0, 1)
    assert len(caplog.records) == 1
    world.topics.put("t", 3)
    assert world.beat("a", 1).epoch == 2


def test_classic_member_of_a_consumer_group_has_the_same_bounds() -> None:
    world = MixedWorld(t=1)
    world.join("new")
    large = embedded([f"{n:0200d}" for n in range(RECORD_MAX_BYTES // 400)])
    for metadata in (large, large * 4):
        reply = world.joined(world.join_classic(metadata=metadata))
        assert reply.error == Code.UNKNOWN_SERVER_ERROR
    assert world.beat("new", 1).error == 0


@pytest.mark.parametrize("member_id", ["m" * 300, "ü/" * 80, "~" + "0" * 48])
def test_consumer_member_ids_of_any_length_come_back(member_id: str) -> None:
    world = ConsumerGroupWorld(t=1)
    reply = world.join(member_id)
    assert all(len(name) < 300 for name in world.records)
    world.restart()
    assert world.beat(member_id, reply.epoch).error == 0
    world.leave(member_id)
    assert not any("member/" in name for name in world.records)


def test_no_member_id_takes_the_record_of_a_hashed_one() -> None:
    long = "m" * 300
    hashed = stored.member_name(long).rpartition("/")[2]
    assert stored.member_name(hashed) != stored.member_name(long)


def test_pattern_whose_matches_exceed_a_record_is_matched_again() -> None:
    names = [f"{n:0240d}" for n in range(VALUE_MAX_BYTES // 240)]
    world = ConsumerGroupWorld()
    for name in names:
        world.topics.put(name, 1)
    assert world.join("a", None, regex="0.*").error == 0
    regexes = [value for name, value in world.records.items() if "regex" in name]
    assert all(len(value) < 1_000 for value in regexes)
    world.restart()
    assert world.group.subscribed_to(names[0])
    assert world.beat("a", 1).error == 0
    assert world.group.subscribed_to(names[0])
    assert not world.group.subscribed_to("other")


@pytest.mark.parametrize("limits", [Limits(), Limits(operations=128, value_bytes=2**19)])
def test_a_group_with_too_large_a_record_keeps_its_state_and_does_not_affect_others(
    limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So few bytes that a group reaches them before ``MAX_ASSIGNMENT_WORK``.
    monkeypatch.setattr(runtime, "VALUE_MAX_BYTES", 2**19)

    @simulated
    async def scenario(cluster: CoordinatorCluster) -> None:
        topics = SharedTopics(t=4, huge=MAX_ASSIGNMENT_WORK - 100)
        store = MemoryStore(limits, database=cluster.database)
        node = await cluster.node(1, store, topics=topics)
        await asyncio.sleep(1)
        groups = node.groups
        beside = next(
            n for n in map(str, range(9999)) if GROUPS.shard_of(n) == GROUPS.shard_of("g")
        )
        neighbour = asyncio.create_task(groups.join(beside, joining()))
        assert (await groups.consumer_heartbeat("g", beating("a", 0))).error == 0
        await groups.commit(committing("g", {("t", 0): 5}, member_id="a", epoch=1))
        greedy = asyncio.create_task(groups.consumer_heartbeat("g", beating("b", 0, topic="huge")))
        await asyncio.sleep(0)
        with pytest.raises(CoordinatorLoading):
            await groups.consumer_heartbeat("g", beating("a", 1))
        with pytest.raises(GroupTooLarge):
            await greedy
        assert (await neighbour).error == 0, "the neighbour waits on as if nothing had happened"
        await asyncio.sleep(1)
        described = await groups.describe_consumer("g")
        assert [member.member_id for member in described.members] == ["a"]
        assert (await groups.consumer_heartbeat("g", beating("a", 1))).error == 0
        _, found = await groups.fetch("g", None)
        assert found["t", 0].offset == 5
        await node.stop()

    scenario()


async def test_group_ids_are_bounded() -> None:
    longest = "ü" * (GROUP_ID_MAX_BYTES // 2)
    async with one_node(SharedTopics(t=1)) as node:
        assert (await node.groups.join(longest, joining())).error == 0
        for name in (longest + "x", "g" * 40_000):
            with pytest.raises(InvalidGroupId):
                await node.groups.join(name, joining())
            with pytest.raises(InvalidGroupId):
                await node.groups.commit(committing(name, {("t", 0): 1}))
        assert [line.group for line in await node.groups.list()] == [longest]


async def test_offset_metadata_that_exceeds_a_record_is_refused_even_if_the_setting_allows_it() -> (
    None
):
    settings = replace(SETTINGS, offset_metadata_max_bytes=2**24)
    async with one_node(SharedTopics(t=2), settings=settings) as node:
        request = committing("g", {("t", 0): 1, ("t", 1): 1})
        request.offsets["t", 1] = CommittedOffset(offset=1, metadata="x" * RECORD_MAX_BYTES)
        codes = await node.groups.commit(request)
        assert codes == {("t", 0): 0, ("t", 1): Code.INVALID_COMMIT_OFFSET_SIZE}
