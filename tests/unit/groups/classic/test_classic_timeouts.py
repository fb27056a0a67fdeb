"""Sessions, rebalance time-outs, and what keeps a member alive."""

import pytest

from headwater.groups.requests import JoinReply
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import DrivenGroup


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    group = DrivenGroup()
    silent, alive = group.stable(2, session_ms=10_000)
    group.pass_time(11, alive=[alive])
    assert group.heartbeat(silent) == Code.UNKNOWN_MEMBER_ID
    assert group.heartbeat(alive) == Code.REBALANCE_IN_PROGRESS
    assert group.machine.leader == alive


def test_heartbeats_in_a_rebalance_keep_the_session() -> None:
    group = DrivenGroup()
    leader, slow = group.stable(2, session_ms=10_000)
    ticket = group.join(leader)
    group.pass_time(30, alive=[slow])
    assert group.heartbeat(slow) == Code.REBALANCE_IN_PROGRESS
    assert ticket not in group.replies
    assert group.joined(group.join(slow)).generation == 2


def test_a_member_that_does_not_join_in_time_is_left_out_of_the_generation() -> None:
    group = DrivenGroup()
    leader, slow = group.stable(2, session_ms=10_000, rebalance_ms=20_000)
    ticket = group.join(leader, rebalance_ms=20_000)
    group.pass_time(21, alive=[slow])
    assert [member.member_id for member in group.joined(ticket).members] == [leader]
    assert group.heartbeat(slow) == Code.UNKNOWN_MEMBER_ID


def test_a_waiting_join_keeps_its_member_alive() -> None:
    group = DrivenGroup()
    leader, slow = group.stable(2, session_ms=10_000, rebalance_ms=60_000)
    ticket = group.join(leader)
    group.pass_time(50, alive=[slow])
    assert ticket not in group.replies
    group.pass_time(11, alive=[slow])
    assert group.joined(ticket).generation == 2
    assert [member.member_id for member in group.machine.members] == [leader]


def test_a_new_members_join_does_not_wait_for_ever() -> None:
    group = DrivenGroup()
    old, other = group.stable(2, rebalance_ms=1_000_000)
    ticket = group.join(rebalance_ms=1_000_000)
    group.pass_time(301, alive=[old, other])
    assert group.answer(ticket, JoinReply) == JoinReply(error=Code.UNKNOWN_MEMBER_ID)
    assert len(group.machine.members) == 2


def test_an_assigned_id_that_never_joins_is_forgotten_after_its_session() -> None:
    group = DrivenGroup()
    (leader,) = group.stable(1, session_ms=10_000)
    pending = group.answer(group.join(known=True, session_ms=6_000), JoinReply).member_id
    waiting = group.join(leader)
    group.pass_time(7)
    assert group.joined(waiting).generation == 2, "nobody is waited for any more"
    assert group.answer(group.join(pending, known=True), JoinReply).error == Code.UNKNOWN_MEMBER_ID


def test_members_that_do_not_fetch_their_assignment_in_time_are_removed() -> None:
    group = DrivenGroup()
    tickets = [group.join(rebalance_ms=20_000) for _ in range(3)]
    group.pass_time(6)
    leader, good, bad = (group.joined(ticket).member_id for ticket in tickets)
    group.sync(leader, {})
    group.synced(group.sync(good))
    group.pass_time(21, alive=[leader, good, bad])
    assert (group.heartbeat(good), group.heartbeat(bad)) == (
        Code.REBALANCE_IN_PROGRESS,
        Code.UNKNOWN_MEMBER_ID,
    )


def test_a_leader_that_sends_no_assignment_in_time_is_removed() -> None:
    group = DrivenGroup()
    tickets = [group.join(rebalance_ms=20_000) for _ in range(2)]
    group.pass_time(6)
    leader, follower = (group.joined(ticket).member_id for ticket in tickets)
    waiting = group.sync(follower)
    group.pass_time(21, alive=[leader])
    assert group.replies[waiting].error == Code.REBALANCE_IN_PROGRESS
    assert group.heartbeat(leader) == Code.UNKNOWN_MEMBER_ID
    assert group.machine.leader == follower


def test_a_commit_keeps_its_member_alive() -> None:
    group = DrivenGroup()
    (leader,) = group.stable(1, session_ms=10_000)
    for _ in range(5):
        group.pass_time(5)
        assert group.machine.check_commit(leader, None, 1, group.now) == Code.NONE
    assert group.machine.state == "Stable"
    group.pass_time(11)
    assert group.machine.empty


@pytest.mark.parametrize("early", [0.0, 0.5])
def test_expire_before_its_time_does_nothing(early: float) -> None:
    group = DrivenGroup()
    group.join()
    before = group.machine.describe()
    effects = group.machine.expire(group.now + early, group.now_ms)
    assert (effects.replies, effects.records) == ([], {})
    assert group.machine.describe() == before
