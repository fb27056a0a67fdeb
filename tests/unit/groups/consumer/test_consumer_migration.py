"""Applications that move between the protocols while they run."""

import pytest

from headwater.groups.consumer.consumer_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from headwater.groups.requests import LeavingMember
from headwater.groups.settings import GroupSettings, MigrationPolicy
from headwater.wire.error_codes import Code
from tests.support.groups.consumer_mixed import MixedWorld, assigned, subscription


def classic_group(world: MixedWorld, **assignments: tuple[int, ...]) -> dict[str, str]:
    """A stable classic group of members by instance; the ids that they got."""
    tickets = {name: world.join_classic(instance=name) for name in assignments}
    world.pass_time(0)
    ids = {name: world.joined(ticket).member_id for name, ticket in tickets.items()}
    generation, leader = world.classic.generation, world.classic.leader
    given = {
        ids[name]: write_assignment({"t": numbers}, subscription(["t"]))
        for name, numbers in assignments.items()
    }
    instance = next(name for name, member_id in ids.items() if member_id == leader)
    assert leader is not None
    world.sync(leader, generation, given, instance=instance)
    assert world.classic.state == "Stable"
    return ids


def mixed_group(policy: MigrationPolicy = "bidirectional") -> tuple[MixedWorld, str]:
    """A consumer group of ``new``, which has 0, and a classic member, which has 1."""
    settings = GroupSettings(initial_rebalance_delay_ms=0, consumer_migration_policy=policy)
    world = MixedWorld(settings, t=2)
    world.join("new")
    old = world.joined(world.join_classic()).member_id
    world.beat("new", 1)
    world.beat("new", 1, world.partitions("t", 0))
    reply = world.joined(world.join_classic(old))
    assert reply.generation == 2
    assert assigned(world.sync(old, 2)) == {"t": (1,)}
    return world, old


# Upgrade


def test_classic_group_becomes_a_consumer_group_when_a_new_member_joins() -> None:
    world = MixedWorld(t=2)
    ids = classic_group(world, a=(0,), b=(1,))
    generation = world.classic.generation
    reply = world.join("new")
    assert (reply.error, reply.epoch) == (0, generation + 1)
    assert reply.assignment == {}
    described = world.consumer.describe(world.topics)
    assert described.epoch == generation + 1
    assert {m.member_id: m.member_type for m in described.members} == {
        ids["a"]: 0,
        ids["b"]: 0,
        "new": 1,
    }
    assert all(name.startswith("consumer/") for name in world.records)
    assert world.beat_classic(ids["a"], generation, "a") == Code.REBALANCE_IN_PROGRESS


def test_upgraded_classic_member_revokes_by_joining_again() -> None:
    world = MixedWorld(t=2)
    ids = classic_group(world, a=(0, 1))
    generation = world.classic.generation
    epoch = world.join("new").epoch
    # An eager member joins owning nothing, so that all is free at once.
    joined = world.joined(world.join_classic(ids["a"], instance="a"))
    assert (joined.error, joined.generation, joined.protocol_name) == (0, epoch, "range")
    assert (joined.leader, joined.members) == ("", ())
    mine = assigned(world.sync(ids["a"], epoch, instance="a"))
    theirs = world.beat("new", epoch).assignment
    assert {number for numbers in mine.values() for number in numbers} | {
        number for numbers in (theirs or {}).values() for number in numbers
    } == {0, 1}
    assert world.beat_classic(ids["a"], epoch, "a") == Code.NONE
    assert world.beat_classic(ids["a"], generation, "a") == Code.ILLEGAL_GENERATION


def test_cooperative_member_keeps_its_partitions_until_it_reports_their_revocation() -> None:
    world = MixedWorld(t=2)
    ids = classic_group(world, a=(0, 1))
    generation = world.classic.generation
    epoch = world.join("new").epoch
    joined = world.joined(world.join_classic(ids["a"], owned={"t": (0, 1)}, instance="a"))
    assert joined.generation == generation
    left = assigned(world.sync(ids["a"], generation, instance="a"))
    assert len(left["t"]) == 1
    assert world.beat("new", epoch).assignment is None
    assert world.beat_classic(ids["a"], generation, "a") == Code.REBALANCE_IN_PROGRESS
    joined = world.joined(world.join_classic(ids["a"], owned=left, instance="a"))
    assert joined.generation == epoch
    assert assigned(world.sync(ids["a"], epoch, instance="a")) == left
    assert world.beat("new", epoch).assignment == world.partitions("t", 1 - left["t"][0])


def test_waiting_requests_of_an_upgraded_classic_group_get_rebalance_in_progress() -> None:
    world = MixedWorld(GroupSettings(initial_rebalance_delay_ms=3_000), t=1)
    ticket = world.join_classic(instance="a")
    assert ticket not in world.answers
    assert world.join("new").error == 0
    assert world.joined(ticket).error == Code.REBALANCE_IN_PROGRESS


def test_empty_classic_group_is_always_replaced() -> None:
    settings = GroupSettings(consumer_migration_policy="disabled")
    world = MixedWorld(settings, t=1)
    assert world.join("new").assignment == world.partitions("t", 0)
    assert world.consumer.state == "Stable"


@pytest.mark.parametrize(
    ("settings", "kinds", "reason"),
    [
        (
            GroupSettings(initial_rebalance_delay_ms=0, consumer_migration_policy="downgrade"),
            {},
            "online upgrade is disabled.",
        ),
        (
            GroupSettings(initial_rebalance_delay_ms=0),
            {"protocol_type": "connect"},
            "the group does not use the consumer embedded protocol.",
        ),
        (
            GroupSettings(initial_rebalance_delay_ms=0),
            {"metadata": b"\0"},
            "the embedded consumer protocol is malformed.",
        ),
    ],
    ids=["policy", "other protocol", "malformed"],
)
def test_classic_group_that_cannot_be_upgraded_does_not_change(
    settings: GroupSettings, kinds: dict[str, object], reason: str
) -> None:
    world = MixedWorld(settings, t=1)
    world.join_classic(instance="a", **kinds)  # type: ignore[arg-type]  # by name
    reply = world.join("new")
    assert reply.error == Code.GROUP_ID_NOT_FOUND
    assert reply.message == f"Cannot upgrade classic group g to consumer group because {reason}"
    assert len(world.classic.members) == 1
    assert world.last.records == {}


def test_assignment_of_a_custom_assignor_forbids_the_upgrade() -> None:
    world = MixedWorld(t=1)
    ticket = world.join_classic(instance="a")
    world.pass_time(0)
    reply = world.joined(ticket)
    data = write_assignment({"t": (0,)}, subscription(["t"]))[:-4] + b"\0\0\0\1x"
    world.sync(reply.member_id, reply.generation, {reply.member_id: data}, instance="a")
    refused = world.join("new")
    assert refused.error == Code.GROUP_ID_NOT_FOUND
    assert "unsupported custom assignor" in (refused.message or "")


def test_heartbeat_of_a_member_does_not_upgrade_a_classic_group() -> None:
    world = MixedWorld(t=1)
    world.join_classic(instance="a")
    for epoch in (1, -1):
        reply = world.beat("new", epoch)
        assert reply.error == Code.GROUP_ID_NOT_FOUND
        assert reply.message == "Group g is not a consumer group."


def test_refused_join_does_not_upgrade_a_classic_group() -> None:
    world = MixedWorld(t=1)
    world.join_classic(instance="a")
    assert world.join("new", None, regex="(").error == Code.INVALID_REGULAR_EXPRESSION
    assert world.classic.members


def test_static_member_moves_over_with_its_partitions() -> None:
    world = MixedWorld(t=2)
    ids = classic_group(world, a=(0,), b=(1,))
    reply = world.join("new", instance="a")
    assert reply.assignment == world.partitions("t", 0)
    members = {m.member_id for m in world.consumer.describe(world.topics).members}
    assert members == {"new", ids["b"]}
    assert world.beat_classic(ids["a"], 1, "a") == Code.FENCED_INSTANCE_ID


# Downgrade


def test_group_becomes_classic_when_its_last_new_member_leaves() -> None:
    world, old = mixed_group()
    assert world.leave("new") == 0
    assert world.classic.state == "PreparingRebalance"
    assert [member.member_id for member in world.classic.members] == [old]
    assert world.classic.generation == 2
    assert all(name.startswith("classic") for name in world.records)
    assert world.beat_classic(old, 2) == Code.REBALANCE_IN_PROGRESS
    joined = world.joined(world.join_classic(old))
    assert (joined.error, joined.generation, joined.leader) == (0, 3, old)


def test_group_becomes_classic_when_the_session_of_its_last_new_member_ends() -> None:
    world, old = mixed_group()
    for _ in range(6):
        world.pass_time(8)
        world.beat_classic(old, 2)
    assert world.classic.state == "PreparingRebalance"


def test_downgraded_members_have_their_assignments() -> None:
    world, old = mixed_group()
    world.leave("new")
    (member,) = world.classic.members
    assert member.member_id == old
    found = read_assignment(member.assignment)
    assert found is not None
    assert found.partitions == {"t": (1,)}


def test_group_stays_a_consumer_group_if_downgrades_are_disabled() -> None:
    world, old = mixed_group("upgrade")
    world.leave("new")
    assert world.consumer.state == "Assigning"
    assert world.beat_classic(old, 2) == Code.REBALANCE_IN_PROGRESS
    assert world.joined(world.join_classic(old)).generation == 3
    assert assigned(world.sync(old, 3)) == {"t": (0, 1)}


def test_static_member_that_goes_back_to_the_classic_protocol_converts_the_group() -> None:
    world = MixedWorld(t=1)
    world.join("new", instance="a")
    world.leave("new", instance="a", epoch=-2)
    reply = world.joined(world.join_classic(instance="a"))
    assert (reply.error, reply.generation) == (0, 1)
    assert world.classic.state == "Stable"
    assert assigned(world.sync(reply.member_id, 1, instance="a")) == {"t": (0,)}


def test_empty_consumer_group_becomes_classic_with_the_first_classic_member() -> None:
    world = MixedWorld(t=1)
    world.join("new")
    world.leave("new")
    ticket = world.join_classic(instance="a")
    world.pass_time(0)
    reply = world.joined(ticket)
    assert (reply.error, reply.generation) == (0, 1)
    assert all(name.startswith("classic") for name in world.records)


def test_unknown_member_does_not_convert_an_empty_consumer_group() -> None:
    world = MixedWorld(t=1)
    world.join("new")
    world.leave("new")
    assert world.joined(world.join_classic("x")).error == Code.UNKNOWN_MEMBER_ID
    assert world.consumer.empty


# Classic members in a consumer group


def test_classic_member_first_gets_an_id() -> None:
    world = MixedWorld(t=1)
    world.join("new")
    reply = world.joined(world.join_classic(known=True))
    assert reply.error == Code.MEMBER_ID_REQUIRED
    assert world.joined(world.join_classic(reply.member_id, known=True)).error == 0


def test_silent_classic_member_is_fenced_after_its_own_session() -> None:
    world, old = mixed_group()
    world.pass_time(11)
    assert world.beat_classic(old, 2) == Code.UNKNOWN_MEMBER_ID


def test_classic_member_that_does_not_join_again_in_time_is_fenced() -> None:
    world, old = mixed_group()
    world.topics.put("t", 3)
    world.beat("new", 2)
    for _ in range(5):
        last = world.beat_classic(old, 2)
        world.pass_time(6)
        world.beat("new", 3)
    assert last == Code.UNKNOWN_MEMBER_ID


def test_classic_member_that_does_not_sync_in_time_is_fenced() -> None:
    world, old = mixed_group()
    world.joined(world.join_classic(old))
    for _ in range(5):
        last = world.beat_classic(old, 2)
        world.pass_time(6)
    assert last == Code.UNKNOWN_MEMBER_ID


def test_restored_group_asks_classic_members_to_join_before_they_sync() -> None:
    world, old = mixed_group()
    before = world.consumer.describe(world.topics)
    world.restart()
    assert world.consumer.describe(world.topics) == before
    assert world.sync(old, 2).error == Code.REBALANCE_IN_PROGRESS
    assert world.joined(world.join_classic(old)).generation == 2
    assert assigned(world.sync(old, 2)) == {"t": (1,)}


def test_administrator_removes_members_of_both_kinds() -> None:
    world, old = mixed_group("upgrade")
    world.join("s", instance="i")
    codes = world.leave_classic(
        LeavingMember(old, None),
        LeavingMember("x", None),
        LeavingMember("", "i"),
        LeavingMember("", "j"),
        LeavingMember("x", "i"),
    )
    assert codes == [
        Code.NONE,
        Code.UNKNOWN_MEMBER_ID,
        Code.NONE,
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_INSTANCE_ID,
    ]
    assert [m.member_id for m in world.consumer.describe(world.topics).members] == ["new"]


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        ({"session_ms": 1}, Code.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": "connect"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ("sticky",)}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"metadata": b"\0"}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "x", "instance": "j"}, Code.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "instance": "i"}, Code.FENCED_INSTANCE_ID),
    ],
)
def test_bad_join_is_refused(kinds: dict[str, object], code: Code) -> None:
    world, _ = mixed_group()
    world.join("s", instance="i")
    before = world.consumer.describe(world.topics)
    ticket = world.join_classic(**kinds)  # type: ignore[arg-type]  # by name
    assert world.joined(ticket).error == code
    assert world.consumer.describe(world.topics) == before


def test_join_to_a_full_group_is_refused() -> None:
    settings = GroupSettings(max_size=1)
    world = MixedWorld(settings, t=1)
    world.join("new")
    assert world.joined(world.join_classic()).error == Code.GROUP_MAX_SIZE_REACHED


def test_bad_sync_is_refused() -> None:
    world, old = mixed_group()

    def code(member_id: str, generation: int, **kinds: str) -> int:
        return world.sync(member_id, generation, **kinds).error  # type: ignore[arg-type]

    assert code("x", 2) == Code.UNKNOWN_MEMBER_ID
    assert code("new", 2) == Code.UNKNOWN_MEMBER_ID
    assert code(old, 1) == Code.ILLEGAL_GENERATION
    assert code(old, 2, protocol_type="connect") == Code.INCONSISTENT_GROUP_PROTOCOL
    assert code(old, 2, protocol_name="sticky") == Code.INCONSISTENT_GROUP_PROTOCOL
    assert code(old, 2) == Code.NONE


def test_commits_of_classic_members_are_checked_by_generation() -> None:
    world, old = mixed_group()
    assert world.consumer.check_commit(old, None, 2, world.now) == Code.NONE
    assert world.consumer.check_commit(old, None, 1, world.now) == Code.ILLEGAL_GENERATION


# What members say to each other


@pytest.mark.parametrize("version", range(6))
def test_embedded_messages_of_every_version_are_read(version: int) -> None:
    head = version.to_bytes(2, "big")
    rest = subscription(["t"], {"t": (1,)})[2:] + b"\0\0\0\7" + b"\0\1r"
    found = read_subscription(head + rest)
    assert found is not None
    assert found.topics == {"t"}
    assert found.owned == ({"t": (1,)} if version else {})
    assert found.rack_id == ("r" if version >= 3 else None)
    written = write_assignment({"t": (2, 1)}, head + rest)
    assert int.from_bytes(written[:2], "big") == min(version, 3)
    read = read_assignment(written)
    assert read is not None
    assert read.partitions == {"t": (1, 2)}


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\1\0\0\0\1"])
def test_malformed_embedded_messages_are_detected(data: bytes) -> None:
    assert read_subscription(data) is None
    assert read_assignment(data) is None
