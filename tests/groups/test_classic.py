"""Generations of a classic group: how they come about, and what they survive."""

from headwater.groups.requests import JoinReply
from tests.groups.classic_harness import Group, assignment


def test_the_first_member_waits_for_others_before_a_generation_begins() -> None:
    group = Group()
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


def test_an_assignment_is_handed_out_with_its_record() -> None:
    group = Group()
    leader, follower = group.settle([group.join(), group.join()])
    names = set(group.written[-1])
    assert "classic" in names
    assert len(names) == 3
    assert group.synced(group.sync(follower)) == assignment(follower, 1)
    assert group.synced(group.sync(leader)) == assignment(leader, 1)


def test_an_unknown_member_is_told_so() -> None:
    group = Group()
    group.stable()
    assert group.answer(group.join("nobody"), JoinReply).error == 25
