"""Consumer groups: epochs, reconciliation, subscriptions and what is stored."""

from typing import NoReturn

import msgspec

from headwater.groups.consumer.members import ConsumerMember
from headwater.groups.group import TORN_MARK
from headwater.groups.machine import GroupMachine
from headwater.groups.requests import (
    ClassicDescription,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
)
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code
from tests.support.groups.consumer_world import CLIENT, ConsumerGroupWorld, settle


def test_first_member_gets_everything_at_once() -> None:
    world = ConsumerGroupWorld(t=3)
    reply = world.join("a")
    assert reply == ConsumerHeartbeatReply(
        member_id="a",
        epoch=1,
        heartbeat_interval_ms=5_000,
        assignment=world.partitions("t", 0, 1, 2),
    )
    assert world.group.state == "Stable"


def test_unchanged_heartbeat_gets_no_assignment_and_stores_nothing() -> None:
    world = ConsumerGroupWorld(t=3)
    world.join("a")
    reply = world.beat("a", 1)
    assert (reply.error, reply.epoch, reply.assignment) == (0, 1, None)
    assert world.last.records == {}


def test_unchanged_heartbeat_reads_no_topic_and_no_other_member() -> None:
    world = ConsumerGroupWorld(t=3)
    world.join("a")

    class Untouchable(dict[str, ConsumerMember]):
        def values(self) -> NoReturn:
            raise AssertionError("a plain heartbeat costs the same in a group of any size")

        items = values

    world.group._state.members = Untouchable(world.group._state.members)
    world.topics.get = world.topics.names = world.topics.get_by_id = None  # type: ignore[assignment,method-assign]
    assert world.beat("a", 1).error == 0


def test_full_heartbeat_is_answered_with_the_assignment() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    reply = world.join("a")
    assert reply.assignment == world.partitions("t", 0, 1)
    assert world.last.records == {}


def test_partition_moves_only_after_its_owner_has_revoked_it() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    reply = world.join("b")
    assert (reply.epoch, reply.assignment) == (2, {})
    assert world.group.state == "Reconciling"

    told = world.beat("a", 1)
    assert (told.epoch, told.assignment) == (1, world.partitions("t", 0))
    assert world.beat("b", 2).assignment is None  # a has not said that it gave it up

    done = world.beat("a", 1, world.partitions("t", 0))
    assert (done.epoch, done.assignment) == (2, None)
    assert world.beat("b", 2).assignment == world.partitions("t", 1)
    assert world.group.state == "Stable"


def test_heartbeat_that_still_owns_partitions_to_revoke_changes_nothing() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    world.join("b")
    world.beat("a", 1)
    reply = world.beat("a", 1, world.partitions("t", 0, 1))
    assert (reply.epoch, reply.assignment) == (1, None)
    assert world.beat("b", 2).assignment is None


def test_member_that_does_not_revoke_within_its_rebalance_timeout_is_fenced() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a", rebalance_timeout_ms=10_000)
    world.join("b")
    world.beat("a", 1)
    for _ in range(3):
        world.pass_time(4)
        world.beat("a", 1)
        world.beat("b", 2)
    assert world.beat("a", 1).error == Code.UNKNOWN_MEMBER_ID
    assert settle(world) == {"b": world.partitions("t", 0, 1)}


def test_revoking_in_time_ends_the_rebalance_timeout() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a", rebalance_timeout_ms=10_000)
    world.join("b")
    world.beat("a", 1)
    world.beat("a", 1, world.partitions("t", 0))
    for _ in range(4):
        world.pass_time(4)
        assert world.beat("a", 2).error == 0


def test_silent_member_is_fenced_after_its_session() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    world.join("b")
    world.pass_time(44)
    world.beat("b", 2)
    world.pass_time(1.5)
    assert world.beat("a", 1).error == Code.UNKNOWN_MEMBER_ID
    assert settle(world) == {"b": world.partitions("t", 0, 1)}


def test_commit_keeps_a_member_alive() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    world.pass_time(40)
    assert world.group.check_commit("a", None, 1, world.now) == 0
    world.pass_time(40)
    assert world.beat("a", 1).error == 0


def test_settings_may_change_while_there_are_members() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    world.group.settings = GroupSettings(
        consumer_session_timeout_ms=5_000, consumer_heartbeat_interval_ms=1_000
    )
    assert world.beat("a", 1).heartbeat_interval_ms == 1_000
    world.pass_time(6)
    assert world.group.empty


def test_empty_group_remembers_when_its_last_member_left() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    assert world.group.empty_since_ms is None
    world.now += 5
    world.leave("a")
    assert (world.group.state, world.group.empty) == ("Empty", True)
    assert world.group.empty_since_ms == world.now_ms
    world.restart()
    assert world.group.empty_since_ms == world.now_ms
    assert world.group.deadline is None
    assert world.join("b").assignment == world.partitions("t", 0)
    assert world.group.empty_since_ms is None


def test_leaving_member_frees_its_partitions_at_once() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    world.join("b")
    world.leave("a")
    assert world.beat("b", 2).assignment == world.partitions("t", 0, 1)


def test_the_previous_epoch_is_accepted_after_a_lost_reply() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    world.join("b")
    world.beat("a", 1)
    world.beat("a", 1, world.partitions("t", 0))  # the reply with epoch 2 is lost
    reply = world.beat("a", 1, world.partitions("t", 0))
    assert (reply.error, reply.epoch) == (0, 2)


def test_member_that_rejoins_with_its_id_gets_its_partitions_back() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a")
    world.beat("a", 1)
    reply = world.join("a")
    assert (reply.error, reply.epoch) == (0, 1)
    assert reply.assignment == world.partitions("t", 0, 1)


def test_coordinator_assigns_an_id_to_old_clients() -> None:
    world = ConsumerGroupWorld(t=1)
    reply = world.send(
        ConsumerHeartbeatRequest(
            client=CLIENT,
            member_id="",
            epoch=0,
            rebalance_timeout_ms=1,
            topic_names=("t",),
            owned={},
            version=0,
        )
    )
    assert reply.member_id is not None
    assert len(reply.member_id) == 22
    assert world.beat(reply.member_id, 1).error == 0


# Topics


def test_static_member_returns_to_its_partitions_without_a_rebalance() -> None:
    world = ConsumerGroupWorld(t=4)
    world.join("a", instance="i")
    world.join("b")
    before = settle(world)
    assert world.leave("a", instance="i", epoch=-2) == 0
    world.beat("b", 2)
    reply = world.join("a2", instance="i")
    assert (reply.epoch, reply.assignment) == (2, before["a"])
    assert settle(world) == {"a2": before["a"], "b": before["b"]}


def test_static_member_keeps_its_place_for_a_session_only() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a", instance="i")
    world.leave("a", instance="i", epoch=-2)
    world.pass_time(46)
    assert world.group.empty


def test_static_member_may_join_again_after_a_lost_reply() -> None:
    world = ConsumerGroupWorld(t=2)
    first = world.join("s", instance="i")
    again = world.join("s", instance="i")
    assert (again.error, again.assignment) == (Code.NONE, first.assignment)
    assert world.join("other", instance="i").error == Code.UNRELEASED_INSTANCE_ID


def test_static_member_that_was_replaced_is_fenced() -> None:
    world = ConsumerGroupWorld(t=2)
    world.join("a", instance="i")
    world.leave("a", instance="i", epoch=-2)
    world.join("a2", instance="i")
    assert world.beat("a", 1, instance="i").error == Code.FENCED_INSTANCE_ID


# Seen from outside


def test_describe_groups_does_not_know_a_consumer_group() -> None:
    assert ConsumerGroupWorld().group.describe_classic() == ClassicDescription(
        error=Code.GROUP_ID_NOT_FOUND, message="Group g is not a classic group."
    )


def test_group_without_records_is_unwritten() -> None:
    world = ConsumerGroupWorld()
    assert world.beat("a", 5).error == Code.GROUP_ID_NOT_FOUND
    assert world.group.unwritten
    world.join("a")
    assert not world.group.unwritten


def test_restored_group_continues_in_its_state() -> None:
    world = ConsumerGroupWorld(t=4, logs_a=2)
    world.join("a", instance="i")
    world.join("b", None, regex="logs.*", assignor="range")
    world.beat("a", 1)
    before = world.group.describe(world.topics)
    world.restart()
    assert world.group.describe(world.topics) == before
    assert world.group.subscribed_to("logs_a")
    settle(world)
    assert world.group.state == "Stable"


def test_group_that_was_written_only_in_part_is_assigned_again() -> None:
    world = ConsumerGroupWorld(t=4)
    world.join("a")
    before = dict(world.records)
    world.join("b")
    # Of what the second member's join changed, only the first half was written.
    changed = list(world.last.records)
    assert changed[-1] == "consumer/group"
    torn = {name: world.records[name] for name in changed[: len(changed) // 2]}
    world.records = before | torn | {TORN_MARK: b""}
    world.restart()
    world.join("b")
    settle(world)
    assert TORN_MARK not in world.records
    assert world.group.state == "Stable"
    topic = world.topics.of("t").id
    targets = [len(target[topic]) for target in world.group._state.targets.values()]
    assert targets == [2, 2]


def test_consumer_group_is_a_machine() -> None:
    machine: GroupMachine = ConsumerGroupWorld().group
    assert (machine.kind, machine.protocol_type, machine.state) == ("consumer", "consumer", "Empty")


def test_fields_that_a_newer_release_stored_are_kept() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    for name in ("consumer/group", "consumer/member/a", "consumer/current/a"):
        fields = msgspec.msgpack.decode(world.records[name])
        world.records[name] = msgspec.msgpack.encode(fields | {"later": 7})
    world.restart()
    world.topics.put("u", 1)
    world.beat("a", 1, names=["t", "u"])
    for name in ("consumer/group", "consumer/member/a", "consumer/current/a"):
        assert name in world.last.records
        assert msgspec.msgpack.decode(world.records[name])["later"] == 7
