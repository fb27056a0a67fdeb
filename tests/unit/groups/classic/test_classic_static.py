"""Static members keep their place through a restart."""

from headwater.groups.requests import ClientIdentity, JoinReply, SyncReply
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import DrivenGroup, assignment


def test_a_static_member_that_restarts_gets_its_assignment_without_a_rebalance() -> None:
    group = DrivenGroup()
    leader, old = group.stable_static("a", "b")
    reply = group.joined(group.join(instance="b", client="again"))
    assert reply.member_id.startswith("b-")
    assert reply.member_id != old
    assert (reply.generation, reply.leader, reply.skip_assignment) == (1, leader, False)
    assert group.machine.state == "Stable"
    assert group.synced(group.sync(reply.member_id, instance="b")) == assignment(old, 1)
    (client,) = [m.client for m in group.machine.members if m.instance_id == "b"]
    assert client == ClientIdentity("again", "/127.0.0.1")


def test_the_old_id_of_a_static_member_is_fenced() -> None:
    group = DrivenGroup()
    _, old = group.stable_static("a", "b")
    group.join(instance="b")
    assert group.heartbeat(old, instance="b") == Code.FENCED_INSTANCE_ID
    assert group.answer(group.sync(old, instance="b"), SyncReply).error == Code.FENCED_INSTANCE_ID
    assert group.answer(group.join(old, instance="b"), JoinReply).error == Code.FENCED_INSTANCE_ID
    assert group.machine.check_commit(old, "b", 1, group.now) == Code.FENCED_INSTANCE_ID
    assert group.heartbeat(old) == Code.UNKNOWN_MEMBER_ID


def test_a_leader_that_restarts_skips_the_assignment() -> None:
    group = DrivenGroup()
    old, _ = group.stable_static("a", "b")
    reply = group.joined(group.join(instance="a"))
    assert reply.leader == reply.member_id == group.machine.leader != old
    assert reply.skip_assignment
    assert len(reply.members) == 2


def test_the_reply_to_an_old_client_that_was_leader_names_another_leader() -> None:
    group = DrivenGroup()
    old, _ = group.stable_static("a", "b")
    reply = group.joined(group.join(instance="a", skips=False))
    assert (reply.leader, reply.members, reply.skip_assignment) == (old, (), False)
    assert group.machine.leader == reply.member_id


def test_another_chosen_protocol_starts_a_rebalance() -> None:
    group = DrivenGroup()
    both = (("range", b"r"), ("sticky", b"s"))
    group.stable_static("a", "b", protocols=both)
    ticket = group.join(instance="b", protocols=(("sticky", b"s"),))
    assert ticket not in group.replies
    assert group.machine.state == "PreparingRebalance"


def test_a_static_member_that_restarts_during_a_rebalance_takes_its_old_place() -> None:
    group = DrivenGroup()
    leader, follower = group.stable_static("a", "b")
    waiting = group.join(leader, instance="a")
    fencing = group.join(instance="a")
    assert group.answer(waiting, JoinReply) == JoinReply(
        error=Code.FENCED_INSTANCE_ID, member_id=leader
    )
    group.join(follower, instance="b")
    assert group.joined(fencing).leader == group.joined(fencing).member_id
    waiting_sync = group.sync(follower, instance="b")
    again = group.join(instance="b")
    assert group.answer(waiting_sync, SyncReply).error == Code.FENCED_INSTANCE_ID
    assert again not in group.replies
    assert group.machine.state == "PreparingRebalance"


def test_static_members_of_a_full_group_may_restart() -> None:
    group = DrivenGroup(GroupSettings(max_size=2))
    group.stable_static("a", "b")
    assert group.joined(group.join(instance="b")).generation == 1
    assert group.answer(group.join(instance="c"), JoinReply).error == Code.GROUP_MAX_SIZE_REACHED


def test_static_members_that_do_not_join_in_time_stay_until_their_session_ends() -> None:
    group = DrivenGroup()
    leader, missing = group.stable_static("a", "b", session_ms=100_000, rebalance_ms=20_000)
    ticket = group.join(leader, instance="a", session_ms=100_000, rebalance_ms=20_000)
    group.pass_time(21)
    reply = group.joined(ticket)
    assert {member.member_id for member in reply.members} == {leader, missing}


def test_a_leader_that_does_not_join_in_time_is_replaced() -> None:
    group = DrivenGroup()
    old, follower = group.stable_static("a", "b", session_ms=100_000, rebalance_ms=20_000)
    changed = (("range", b"x"),)
    ticket = group.join(
        follower, instance="b", protocols=changed, session_ms=100_000, rebalance_ms=20_000
    )
    group.pass_time(21)
    assert group.joined(ticket).leader == follower
    assert old in {member.member_id for member in group.machine.members}


def test_a_rebalance_that_no_static_member_joins_is_repeated_until_their_sessions_end() -> None:
    group = DrivenGroup()
    _, kept = group.stable_static("a", "b", session_ms=30_000, rebalance_ms=500)
    group.leave(group.machine.leader or "")
    group.pass_time(20)
    assert group.machine.state == "PreparingRebalance"
    assert [member.member_id for member in group.machine.members] == [kept]
    group.pass_time(20)
    assert group.machine.empty


def test_a_rebalance_that_no_member_joined_in_time_continues_with_the_first_that_does() -> None:
    group = DrivenGroup()
    ids = group.stable_static("a", "b", "c", session_ms=30_000, rebalance_ms=20_000)
    group.leave(ids[0])
    group.pass_time(25, alive=ids[1:])
    ticket = group.join(ids[1], instance="b", session_ms=30_000, rebalance_ms=20_000)
    group.pass_time(20, alive=ids[1:])
    assert {member.member_id for member in group.joined(ticket).members} == set(ids[1:])


def test_a_static_member_that_restarts_before_its_sync_may_still_sync() -> None:
    group = DrivenGroup()
    tickets = [group.join(instance=name, rebalance_ms=20_000) for name in "ab"]
    group.pass_time(6)
    leader = group.joined(tickets[0]).member_id
    group.sync(leader, {group.joined(tickets[1]).member_id: b"share"}, instance="a")
    again = group.joined(group.join(instance="b", rebalance_ms=20_000)).member_id
    assert group.synced(group.sync(again, instance="b")) == b"share"
    group.pass_time(30, alive=[leader, again])
    assert group.machine.state == "Stable"


def test_a_static_member_that_restarts_and_never_syncs_is_removed() -> None:
    group = DrivenGroup()
    tickets = [group.join(instance=name, rebalance_ms=20_000) for name in "ab"]
    group.pass_time(6)
    leader = group.joined(tickets[0]).member_id
    group.sync(leader, {}, instance="a")
    again = group.joined(group.join(instance="b", rebalance_ms=20_000)).member_id
    group.pass_time(30, alive=[leader, again])
    assert [member.member_id for member in group.machine.members] == [leader]


def test_a_replaced_id_outlives_the_coordinator() -> None:
    group = DrivenGroup()
    _, old = group.stable_static("a", "b")
    new = group.joined(group.join(instance="b")).member_id
    assert len(group.written[-1]) == 3, "the group, the new id and the end of the old one"
    described = group.machine.describe()
    group.restart()
    assert group.machine.describe() == described
    assert group.heartbeat(new, instance="b") == Code.NONE
    assert group.heartbeat(old, instance="b") == Code.FENCED_INSTANCE_ID
