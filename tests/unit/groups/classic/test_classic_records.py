"""What of a classic group is stored, when, and what is read back."""

from random import Random
from typing import Any

import msgspec
import pytest

from headwater.errors import UnknownFormat
from headwater.groups.classic.group import ClassicGroup
from headwater.groups.classic.member import ClassicMemberState, choose_protocol
from headwater.groups.classic.records import (
    HEADER,
    HeaderRecord,
    MemberRecord,
    member_name,
    read_records,
)
from headwater.groups.requests import ClientIdentity, JoinReply, SyncReply
from headwater.meta.values import decode
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import SETTINGS, DrivenGroup, assignment, subscription


def test_a_restored_group_goes_on_with_its_generation() -> None:
    group = DrivenGroup()
    leader, follower = group.stable(2, protocols=(("range", b"r"), ("sticky", b"s")))
    described = group.machine.describe()
    group.restart()
    assert group.machine.describe() == described
    assert group.machine.leader == leader
    assert [group.heartbeat(member, 1) for member in (leader, follower)] == [Code.NONE, Code.NONE]
    assert group.synced(group.sync(follower)) == assignment(follower, 1)


def test_a_restored_group_knows_all_protocols_of_its_members() -> None:
    group = DrivenGroup()
    both = (("range", b"r"), ("sticky", b"s"))
    _, follower = group.stable(2, protocols=both)
    group.restart()
    assert group.joined(group.join(follower, protocols=both)).generation == 1


def test_sessions_restart_in_a_restored_group() -> None:
    group = DrivenGroup()
    _, follower = group.stable(2, session_ms=10_000)
    group.pass_time(9)
    group.restart()
    group.pass_time(9)
    assert group.heartbeat(follower) == Code.NONE
    group.restart()
    group.pass_time(11)
    assert group.machine.empty


def test_a_generation_without_an_assignment_is_not_stored() -> None:
    group = DrivenGroup()
    leader, follower = group.stable()
    stored = dict(group.records)
    group.join(leader)
    group.join(follower)
    assert group.machine.generation == 2
    assert group.records == stored
    group.restart()
    assert (group.machine.state, group.machine.generation) == ("Stable", 1)


def test_only_what_changed_is_written() -> None:
    group = DrivenGroup()
    ids = group.stable(20)
    again = [group.join(member) for member in ids]
    assert group.joined(again[0]).generation == 2
    shares = {member: assignment(member, 1) for member in ids} | {ids[7]: b"other"}
    group.sync(ids[0], shares)
    assert set(group.written[-1]) == {HEADER, member_name(ids[7])}
    group.leave(ids[3])
    for member in ids[:3] + ids[4:]:
        group.join(member)
    group.sync(ids[0], shares)
    assert group.written[-1].keys() == {HEADER, member_name(ids[3])}
    assert group.written[-1][member_name(ids[3])] is None


def test_an_empty_group_keeps_its_generation_and_the_time_at_which_it_became_empty() -> None:
    group = DrivenGroup()
    group.leave(*group.stable())
    since, described = group.machine.empty_since_ms, group.machine.describe()
    assert set(group.records) == {HEADER}
    group.pass_time(100)
    group.restart()
    assert group.machine.describe() == described
    assert (group.machine.generation, group.machine.empty_since_ms) == (2, since)
    group.stable(1)
    assert group.machine.generation == 3


def test_a_group_is_stored_when_it_is_first_heard_of() -> None:
    group = DrivenGroup()
    group.join(known=True)
    assert set(group.records) == {HEADER}
    assert not group.machine.unwritten
    group.restart()
    assert group.machine.empty


def test_records_of_two_generations_mixed_are_an_empty_group() -> None:
    group = DrivenGroup()
    ids = group.stable(3)
    before = dict(group.records)
    for member in ids:
        group.join(member)
    # Two members swap what they have: a sum that does not tell places apart would not notice.
    shares = [assignment(member, 1) for member in ids]
    group.sync(ids[0], dict(zip(ids, [shares[0], shares[2], shares[1]], strict=True)))
    after = dict(group.records)
    changed = [name for name in after if after[name] != before[name]]
    assert len(changed) == 3
    for landed in range(1, 2 ** len(changed) - 1):
        names = {name for bit, name in enumerate(changed) if landed >> bit & 1}
        group.records = before | {name: after[name] for name in names}
        group.restart()
        assert group.machine.empty
        assert group.heartbeat(ids[0], 1) == Code.UNKNOWN_MEMBER_ID
    group.stable(1)
    assert set(group.records) == {
        HEADER,
        *(member_name(m.member_id) for m in group.machine.members),
    }


@pytest.mark.parametrize("client", ["a/b c%", "ünï", "x" * 5000])
def test_names_of_records_are_short_and_plain(client: str) -> None:
    group = DrivenGroup()
    (member,) = group.stable(1, client=client)
    name = member_name(member)
    assert set(group.records) == {HEADER, name}
    assert len(name) < 256
    assert name.isascii()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~%/-")
    group.restart()
    assert [state.member_id for state in group.machine.members] == [member]


@pytest.mark.parametrize("kind", [HeaderRecord, MemberRecord])
def test_a_newer_format_is_refused(kind: type[Any]) -> None:
    with pytest.raises(UnknownFormat, match="newer release"):
        decode(kind, msgspec.msgpack.encode({"v": 2}))


def test_fields_of_newer_releases_are_kept() -> None:
    group = DrivenGroup()
    (member,) = group.stable(1)
    name = member_name(member)
    newer = msgspec.msgpack.decode(group.records[name]) | {"rack": "r1"}
    group.records[name] = msgspec.msgpack.encode(newer)
    header = msgspec.msgpack.decode(group.records[HEADER]) | {"note": 5}
    sums = read_records(group.records | {HEADER: msgspec.msgpack.encode(header)}).sums
    header["members_sum"] = sum(sums.values()) % 2**63
    group.records[HEADER] = msgspec.msgpack.encode(header)
    group.restart()
    group.join(member)
    group.sync(member, {member: b"new"})
    stored = msgspec.msgpack.decode(group.records[name])
    assert (stored["rack"], stored["assignment"]) == ("r1", b"new")
    assert msgspec.msgpack.decode(group.records[HEADER])["note"] == 5


def state(member_id: str, *protocols: str, instance: str | None = None) -> ClassicMemberState:
    return ClassicMemberState(
        member_id=member_id,
        instance_id=instance,
        client=ClientIdentity("c", "/127.0.0.1"),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=tuple((name, subscription("t")) for name in protocols),
        assignment=member_id.encode(),
    )


def test_a_consumer_group_can_be_converted_to_a_classic_group() -> None:
    members = [state("a", "range", "sticky"), state("b", "sticky", instance="i")]
    group = DrivenGroup()
    group.machine, effects = ClassicGroup.from_members(
        "g",
        members,
        generation=41,
        settings=SETTINGS,
        rng=Random(1),
        now=group.now,
        now_ms=group.now_ms,
    )
    group.take(effects)
    described = group.machine.describe()
    assert (described.state, described.protocol_name) == ("Stable", "sticky")
    assert group.machine.members == tuple(members)
    assert group.machine.subscribed_to("t")
    group.restart()
    assert group.machine.describe() == described
    assert group.synced(group.sync("b", instance="i")) == b"b"
    group.take(group.machine.begin_rebalance(group.now, group.now_ms))
    assert group.heartbeat("a", 41) == Code.REBALANCE_IN_PROGRESS
    tickets = [
        group.join(m.member_id, protocols=m.protocols, instance=m.instance_id) for m in members
    ]
    assert [group.joined(ticket).generation for ticket in tickets] == [42, 42]


def test_a_retired_group_answers_all_requests_and_deletes_its_records() -> None:
    group = DrivenGroup()
    leader, _ = group.stable()
    waiting = group.join(leader)
    group.take(group.machine.retire(27, group.now, group.now_ms))
    assert group.answer(waiting, JoinReply).error == Code.REBALANCE_IN_PROGRESS
    assert group.records == {}
    assert group.machine.deadline is None
    assert group.machine.state == "Dead"
    other = DrivenGroup()
    tickets = [other.join(), other.join()]
    other.pass_time(6)
    sync = other.sync(other.joined(tickets[1]).member_id)
    other.take(other.machine.retire(16, other.now, other.now_ms))
    assert other.answer(sync, SyncReply).error == Code.NOT_COORDINATOR


def test_a_tied_vote_does_not_change_the_protocol() -> None:
    voters = [state("a", "x", "y"), state("b", "y", "x")]
    assert {choose_protocol(voters, present) for present in ("x", "y")} == {"x", "y"}
    assert choose_protocol(voters) in {"x", "y"}
