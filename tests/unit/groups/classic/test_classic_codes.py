"""Which error code which wrong request gets."""

import pytest

from headwater.groups.requests import JoinReply, LeavingMember, SyncReply
from headwater.wire.error_codes import Code
from tests.support.groups.classic_harness import Call, DrivenGroup


def join_code(group: DrivenGroup, member_id: str = "", **changes: object) -> int:
    ticket = group.join(member_id, **changes)  # type: ignore[arg-type]
    return group.answer(ticket, JoinReply).error


def sync_code(group: DrivenGroup, member_id: str, **changes: object) -> int:
    ticket = group.sync(member_id, **changes)  # type: ignore[arg-type]
    return group.answer(ticket, SyncReply).error


def leader(group: DrivenGroup) -> str:
    assert group.machine.leader is not None
    return group.machine.leader


def commit_code(
    group: DrivenGroup, member_id: str, generation: int, instance: str | None = None
) -> int:
    return group.machine.check_commit(member_id, instance, generation, group.now)


NEW: dict[str, tuple[int, Call]] = {
    "join without protocols": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: join_code(g, protocols=()),
    ),
    "join without a protocol type": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: join_code(g, protocol_type=""),
    ),
    "join with a session that is too short": (
        Code.INVALID_SESSION_TIMEOUT,
        lambda g: join_code(g, session_ms=5_999),
    ),
    "join with a session that is too long": (
        Code.INVALID_SESSION_TIMEOUT,
        lambda g: join_code(g, session_ms=1_800_001),
    ),
    "join with an id that nobody gave out": (Code.UNKNOWN_MEMBER_ID, lambda g: join_code(g, "me")),
    "join with an id of an unknown instance": (
        Code.UNKNOWN_MEMBER_ID,
        lambda g: join_code(g, "me", instance="i"),
    ),
    "join that asks for an id": (Code.MEMBER_ID_REQUIRED, lambda g: join_code(g, known=True)),
    "sync": (Code.UNKNOWN_MEMBER_ID, lambda g: sync_code(g, "me")),
    "heartbeat": (Code.UNKNOWN_MEMBER_ID, lambda g: g.heartbeat("me")),
    "leave": (Code.UNKNOWN_MEMBER_ID, lambda g: g.leave("me")[0]),
    "leave without any name": (Code.UNKNOWN_MEMBER_ID, lambda g: g.leave("")[0]),
    "commit of nobody": (Code.NONE, lambda g: commit_code(g, "", -1)),
    "commit of an unknown member": (Code.UNKNOWN_MEMBER_ID, lambda g: commit_code(g, "me", 1)),
    "fetch": (Code.NONE, lambda g: g.machine.check_fetch("me", 1)),
}

STABLE: dict[str, tuple[int, Call]] = {
    "join of another protocol type": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: join_code(g, protocol_type="connect"),
    ),
    "join with nothing in common": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: join_code(g, protocols=(("other", b""),)),
    ),
    "join of a member with nothing in common": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: join_code(g, leader(g), protocols=(("other", b""),)),
    ),
    "join of an unknown member": (Code.UNKNOWN_MEMBER_ID, lambda g: join_code(g, "me")),
    "join as another's instance": (
        Code.FENCED_INSTANCE_ID,
        lambda g: join_code(g, "me", instance="a"),
    ),
    "sync of an unknown member": (Code.UNKNOWN_MEMBER_ID, lambda g: sync_code(g, "me")),
    "sync of an unknown instance": (
        Code.UNKNOWN_MEMBER_ID,
        lambda g: sync_code(g, leader(g), instance="x"),
    ),
    "sync of another's instance": (
        Code.FENCED_INSTANCE_ID,
        lambda g: sync_code(g, "me", instance="a"),
    ),
    "sync of the generation before": (
        Code.ILLEGAL_GENERATION,
        lambda g: sync_code(g, leader(g), generation=0),
    ),
    "sync of another protocol type": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: sync_code(g, leader(g), protocol_type="connect"),
    ),
    "sync of another protocol": (
        Code.INCONSISTENT_GROUP_PROTOCOL,
        lambda g: sync_code(g, leader(g), protocol_name="other"),
    ),
    "sync": (
        Code.NONE,
        lambda g: sync_code(g, leader(g), protocol_type="consumer", protocol_name="range"),
    ),
    "heartbeat of an unknown member": (Code.UNKNOWN_MEMBER_ID, lambda g: g.heartbeat("me")),
    "heartbeat of another's instance": (
        Code.FENCED_INSTANCE_ID,
        lambda g: g.heartbeat("me", instance="a"),
    ),
    "heartbeat of another generation": (
        Code.ILLEGAL_GENERATION,
        lambda g: g.heartbeat(leader(g), generation=2),
    ),
    "heartbeat": (Code.NONE, lambda g: g.heartbeat(leader(g))),
    "leave of another's instance": (
        Code.FENCED_INSTANCE_ID,
        lambda g: g.leave(LeavingMember("me", "a"))[0],
    ),
    "commit of nobody": (Code.UNKNOWN_MEMBER_ID, lambda g: commit_code(g, "", -1)),
    "commit of another generation": (
        Code.ILLEGAL_GENERATION,
        lambda g: commit_code(g, leader(g), 2),
    ),
    "commit without a generation": (
        Code.ILLEGAL_GENERATION,
        lambda g: commit_code(g, leader(g), -1),
    ),
    "commit of another's instance": (
        Code.FENCED_INSTANCE_ID,
        lambda g: commit_code(g, "me", 1, "a"),
    ),
    "commit": (Code.NONE, lambda g: commit_code(g, leader(g), 1, "a")),
    "fetch": (Code.NONE, lambda g: g.machine.check_fetch("me", 9)),
}

PREPARING: dict[str, tuple[int, Call]] = {
    "sync": (Code.REBALANCE_IN_PROGRESS, lambda g: sync_code(g, leader(g))),
    "heartbeat": (Code.REBALANCE_IN_PROGRESS, lambda g: g.heartbeat(leader(g))),
    "heartbeat of another generation": (
        Code.ILLEGAL_GENERATION,
        lambda g: g.heartbeat(leader(g), generation=7),
    ),
    "commit": (Code.NONE, lambda g: commit_code(g, leader(g), 1)),
}

COMPLETING: dict[str, tuple[int, Call]] = {
    "heartbeat": (Code.NONE, lambda g: g.heartbeat(leader(g))),
    "commit": (Code.REBALANCE_IN_PROGRESS, lambda g: commit_code(g, leader(g), 2)),
    "commit of the generation before": (
        Code.ILLEGAL_GENERATION,
        lambda g: commit_code(g, leader(g), 1),
    ),
}

DEAD: dict[str, tuple[int, Call]] = {
    "join": (Code.COORDINATOR_NOT_AVAILABLE, join_code),
    "sync": (Code.COORDINATOR_NOT_AVAILABLE, lambda g: sync_code(g, "me")),
    "heartbeat": (Code.COORDINATOR_NOT_AVAILABLE, lambda g: g.heartbeat("me")),
    "leave": (
        Code.COORDINATOR_NOT_AVAILABLE,
        lambda g: g.machine.leave([], g.now, g.now_ms)[0].error,
    ),
    "commit": (Code.COORDINATOR_NOT_AVAILABLE, lambda g: commit_code(g, "", -1)),
    "fetch": (Code.GROUP_ID_NOT_FOUND, lambda g: g.machine.check_fetch(None, -1)),
}


@pytest.mark.parametrize("case", NEW)
def test_codes_of_a_group_without_members(case: str) -> None:
    code, call = NEW[case]
    assert call(DrivenGroup()) == code


@pytest.mark.parametrize("case", STABLE)
def test_codes_of_a_stable_group(case: str) -> None:
    code, call = STABLE[case]
    group = DrivenGroup()
    group.stable_static("a", "b")
    before = group.machine.describe()
    assert call(group) == code
    assert group.machine.describe() == before


@pytest.mark.parametrize("case", PREPARING)
def test_codes_of_a_group_that_waits_for_members(case: str) -> None:
    code, call = PREPARING[case]
    group = DrivenGroup()
    group.stable_static("a", "b")
    group.join(instance="c")
    assert group.machine.state == "PreparingRebalance"
    assert call(group) == code


@pytest.mark.parametrize("case", COMPLETING)
def test_codes_of_a_group_that_waits_for_its_assignment(case: str) -> None:
    code, call = COMPLETING[case]
    group = DrivenGroup()
    (member,) = group.stable_static("a")
    group.join(member, instance="a")
    assert group.machine.state == "CompletingRebalance"
    assert call(group) == code


@pytest.mark.parametrize("case", DEAD)
def test_codes_of_a_deleted_group(case: str) -> None:
    code, call = DEAD[case]
    group = DrivenGroup()
    group.stable()
    group.take(group.machine.retire(Code.REBALANCE_IN_PROGRESS, group.now, group.now_ms))
    assert call(group) == code


@pytest.mark.parametrize("case", ["join", "sync", "heartbeat", "leave"])
def test_a_group_needs_a_name(case: str) -> None:
    group = DrivenGroup(name="")
    _, call = DEAD[case]
    assert call(group) == Code.INVALID_GROUP_ID


def test_a_refused_join_leaves_nothing_behind() -> None:
    group = DrivenGroup()
    join_code(group, "me")
    assert group.machine.unwritten
    assert group.written == []
