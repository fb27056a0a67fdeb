"""Generations of a classic group: how they come about, and who is in them."""

from headwater.groups.machine import SUPERSEDED
from headwater.groups.requests import JoinReply, LeavingMember, SyncReply
from headwater.groups.settings import GroupSettings
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import DrivenGroup, assignment, subscription

BOTH = (("range", b"r"), ("sticky", b"s"))
BOTH_REVERSED = (("sticky", b"s"), ("range", b"r"))


def test_a_group_that_was_empty_waits_for_more_members() -> None:
    group = DrivenGroup()
    first = group.join()
    group.pass_time(2)
    assert group.machine.state == "PreparingRebalance"
    second = group.join()
    group.pass_time(1)
    assert first not in group.replies, "a member that joined meanwhile makes the delay longer"
    group.pass_time(3)
    leader, follower = group.joined(first), group.joined(second)
    assert leader.generation == follower.generation == 1
    assert leader.leader == follower.leader == leader.member_id
    assert {member.member_id for member in leader.members} == {
        leader.member_id,
        follower.member_id,
    }
    assert follower.members == ()
    assert group.machine.state == "CompletingRebalance"


def test_the_first_delay_is_never_longer_than_the_rebalance_timeout() -> None:
    group = DrivenGroup()
    tickets = []
    for _ in range(8):
        tickets.append(group.join(rebalance_ms=7_000))
        group.pass_time(1)
    assert {group.joined(ticket).generation for ticket in tickets[:7]} == {1}


def test_a_member_first_gets_an_id_if_its_version_requires_one() -> None:
    group = DrivenGroup()
    given = group.answer(group.join(known=True, client="app"), JoinReply)
    assert given.error == Code.MEMBER_ID_REQUIRED
    assert given.member_id.startswith("app-")
    assert group.machine.empty
    ticket = group.join(given.member_id, known=True)
    group.pass_time(3)
    assert group.joined(ticket).member_id == given.member_id


def test_a_rebalance_waits_for_assigned_ids_that_have_not_joined() -> None:
    group = DrivenGroup()
    (leader,) = group.stable(1)
    pending = group.answer(group.join(known=True), JoinReply).member_id
    again = group.join(leader)
    assert again not in group.replies
    newcomer = group.join(pending, known=True)
    assert group.joined(again).generation == group.joined(newcomer).generation == 2


def test_a_follower_that_joins_again_unchanged_gets_the_present_generation() -> None:
    group = DrivenGroup()
    _, follower = group.stable()
    reply = group.joined(group.join(follower))
    assert (reply.generation, reply.members) == (1, ())
    assert group.machine.state == "Stable"
    assert group.synced(group.sync(follower)) == assignment(follower, 1)


def test_a_leader_that_joins_again_starts_a_rebalance() -> None:
    group = DrivenGroup()
    leader, follower = group.stable()
    again = group.join(leader)
    assert again not in group.replies
    assert group.heartbeat(follower) == Code.REBALANCE_IN_PROGRESS
    other = group.join(follower)
    assert group.joined(again).generation == group.joined(other).generation == 2


def test_changed_metadata_of_a_member_starts_a_rebalance() -> None:
    group = DrivenGroup()
    leader, follower = group.stable()
    again = group.join(follower, protocols=(("range", b"other"),))
    assert group.heartbeat(leader) == Code.REBALANCE_IN_PROGRESS
    by_id = {m.member_id: m.metadata for m in group.joined(group.join(leader)).members}
    assert by_id == {leader: b"r", follower: b"other"}
    assert group.joined(again).generation == 2


def test_a_member_may_repeat_its_sync_while_it_waits_for_the_assignment() -> None:
    group = DrivenGroup()
    tickets = [group.join(), group.join()]
    group.pass_time(6)
    leader, follower = (group.joined(ticket).member_id for ticket in tickets)
    assert len(group.joined(group.join(leader)).members) == 2
    assert group.joined(group.join(follower)).generation == 1
    waiting = group.sync(follower)
    assert waiting not in group.replies
    group.join(follower, protocols=(("range", b"other"),))
    assert group.answer(waiting, SyncReply).error == Code.REBALANCE_IN_PROGRESS
    assert group.machine.state == "PreparingRebalance"


def test_members_that_the_leader_left_out_get_an_empty_assignment() -> None:
    group = DrivenGroup()
    tickets = [group.join(), group.join()]
    group.pass_time(6)
    leader, follower = (group.joined(ticket).member_id for ticket in tickets)
    waiting = group.sync(follower)
    assert group.synced(group.sync(leader, {leader: b"all"})) == b"all"
    assert group.synced(waiting) == b""


def test_a_repeated_request_replaces_the_first_one() -> None:
    group = DrivenGroup()
    leader, follower = group.stable()
    first = group.join(leader)
    second = group.join(leader)
    assert group.replies[first] is SUPERSEDED
    group.join(follower)
    assert group.joined(second).generation == 2
    waiting, again = group.sync(follower), group.sync(follower)
    assert group.replies[waiting] is SUPERSEDED
    group.sync(leader, {follower: b"f"})
    assert group.synced(again) == b"f"


def test_the_common_protocol_with_the_most_votes_wins() -> None:
    group = DrivenGroup()
    tickets = [
        group.join(protocols=(("mine", b""), *BOTH)),
        group.join(protocols=BOTH_REVERSED),
        group.join(protocols=BOTH_REVERSED),
    ]
    group.pass_time(6)
    assert {group.joined(ticket).protocol_name for ticket in tickets} == {"sticky"}
    metadata = {member.metadata for member in group.joined(tickets[0]).members}
    assert metadata == {b"s"}


def test_the_leave_of_several_members_starts_one_rebalance() -> None:
    group = DrivenGroup()
    ids = group.stable(4)
    assert group.leave(ids[1], ids[2], "nobody") == [Code.NONE, Code.NONE, Code.UNKNOWN_MEMBER_ID]
    assert [group.heartbeat(member) for member in ids] == [
        Code.REBALANCE_IN_PROGRESS,
        Code.UNKNOWN_MEMBER_ID,
        Code.UNKNOWN_MEMBER_ID,
        Code.REBALANCE_IN_PROGRESS,
    ]
    tickets = [group.join(ids[0]), group.join(ids[3])]
    assert {group.joined(ticket).generation for ticket in tickets} == {2}


def test_a_group_that_all_members_left_is_empty() -> None:
    group = DrivenGroup()
    ids = group.stable()
    group.pass_time(1)
    assert group.machine.empty_since_ms is None
    group.leave(*ids)
    assert group.machine.empty
    assert group.machine.empty_since_ms == group.now_ms
    assert (group.machine.generation, group.machine.protocol_name) == (2, None)
    assert group.machine.deadline is None
    assert group.machine.describe().members == ()


def test_a_member_that_leaves_gets_answers_to_its_waiting_requests() -> None:
    group = DrivenGroup()
    tickets = [group.join(), group.join()]
    group.pass_time(6)
    _, follower = (group.joined(ticket).member_id for ticket in tickets)
    waiting = group.sync(follower)
    assert group.leave(follower) == [Code.NONE]
    assert group.answer(waiting, SyncReply).error == Code.UNKNOWN_MEMBER_ID
    joining = group.join(group.machine.leader or "")
    assert group.joined(joining).generation == 2


def test_an_administrator_removes_static_members_by_their_instance_ids() -> None:
    group = DrivenGroup()
    kept, removed = group.stable_static("a", "b")
    assert group.leave(LeavingMember("", "b"), LeavingMember("", "x")) == [
        Code.NONE,
        Code.UNKNOWN_MEMBER_ID,
    ]
    assert (group.heartbeat(kept), group.heartbeat(removed)) == (
        Code.REBALANCE_IN_PROGRESS,
        Code.UNKNOWN_MEMBER_ID,
    )


def test_a_full_group_accepts_no_further_members() -> None:
    group = DrivenGroup(GroupSettings(max_size=2))
    leader, follower = group.stable(2)
    assert group.answer(group.join(), JoinReply) == JoinReply(error=Code.GROUP_MAX_SIZE_REACHED)
    assert group.machine.state == "Stable"
    assert group.joined(group.join(follower)).generation == 1
    assert group.heartbeat(leader) == Code.NONE


def test_the_last_members_to_rejoin_a_group_that_is_too_large_are_refused() -> None:
    group = DrivenGroup()
    ids = group.stable(3)
    group.restart(GroupSettings(max_size=2))
    assert group.machine.state == "PreparingRebalance"
    tickets = [group.join(member) for member in ids]
    assert group.answer(tickets[2], JoinReply).error == Code.GROUP_MAX_SIZE_REACHED
    assert [group.joined(ticket).generation for ticket in tickets[:2]] == [2, 2]
    assert len(group.machine.members) == 2


def test_topics_of_consumers_are_known_from_their_metadata() -> None:
    group = DrivenGroup()
    group.join(protocols=(("range", subscription("a", "b")),))
    assert group.machine.subscribed_to("z"), "nothing is known before the first generation"
    group.join(protocols=(("range", b"\0\3" + subscription("c")[2:] + b"later fields"),))
    group.pass_time(6)
    assert [group.machine.subscribed_to(topic) for topic in "abcd"] == [True, True, True, False]
    group.leave(*(member.member_id for member in group.machine.members))
    assert not group.machine.subscribed_to("a")


def test_consumers_with_metadata_that_cannot_be_read_count_for_every_topic() -> None:
    for broken in (b"", b"\0", b"\xff\xff" + subscription("a")[2:], b"\0\0\x7f\xff\xff\xff"):
        group = DrivenGroup()
        group.stable(1, protocols=(("range", broken),))
        assert group.machine.subscribed_to("a")
    group = DrivenGroup()
    group.stable(1, protocol_type="connect")
    assert not group.machine.subscribed_to("a")


def test_a_description_has_metadata_only_while_the_group_is_stable() -> None:
    group = DrivenGroup()
    leader, follower = group.stable()
    stable = group.machine.describe()
    assert (stable.state, stable.protocol_type, stable.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    assert {m.member_id: (m.metadata, m.assignment) for m in stable.members} == {
        leader: (b"r", assignment(leader, 1)),
        follower: (b"r", assignment(follower, 1)),
    }
    group.join(leader)
    preparing = group.machine.describe()
    assert (preparing.state, preparing.protocol_name) == ("PreparingRebalance", "")
    assert {member.metadata for member in preparing.members} == {b""}
