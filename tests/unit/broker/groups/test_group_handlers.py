"""The group APIs between the wire and the groups, in every version that changes something."""

import asyncio
from typing import Any

import pytest

from headwater.errors import CoordinatorNotAvailable, NotCoordinator
from headwater.groups.requests import (
    ClientIdentity,
    JoinedMember,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
)
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from tests.support.broker.scripted import Fixture

ALL_OPERATIONS = 3400


def join_fields(version: int, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"r"}, {"name": "sticky", "metadata": b"s"}],
    }
    if version >= 1:
        fields["rebalance_timeout"] = 60_000
    if version >= 5:
        fields["group_instance_id"] = None
    if version >= 8:
        fields["reason"] = "because"
    return fields | more


@pytest.mark.parametrize(
    ("version", "rebalance", "known", "skipping", "reason"),
    [
        (0, 10_000, False, False, None),
        (3, 60_000, False, False, None),
        (4, 60_000, True, False, None),
        (8, 60_000, True, False, "because"),
        (9, 60_000, True, True, "because"),
    ],
)
async def test_join_requests_reach_the_group_in_every_version(
    given: Fixture,
    version: int,
    rebalance: int,
    known: bool,
    skipping: bool,
    reason: str | None,
) -> None:
    await given.call(ApiKey.JOIN_GROUP, version, **join_fields(version))
    assert given.groups.asked == [
        (
            "join",
            "g",
            JoinRequest(
                client=ClientIdentity("test", "/127.0.0.1"),
                member_id="",
                instance_id=None,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=rebalance,
                protocol_type="consumer",
                protocols=(("range", b"r"), ("sticky", b"s")),
                reason=reason,
                requires_known_member_id=known,
                supports_skipping_assignment=skipping,
            ),
        )
    ]


async def test_static_members_join_without_a_member_id(given: Fixture) -> None:
    await given.call(ApiKey.JOIN_GROUP, 5, **join_fields(5, group_instance_id="i"))
    ((_, _, request),) = given.groups.asked
    assert request.instance_id == "i"
    assert not request.requires_known_member_id


@pytest.mark.parametrize("version", range(10))
async def test_the_leader_gets_all_members_in_every_version(given: Fixture, version: int) -> None:
    given.groups.answers["join"] = JoinReply(
        generation=3,
        protocol_type="consumer",
        protocol_name="range",
        leader="a",
        skip_assignment=True,
        member_id="a",
        members=(JoinedMember("a", "i", b"1"), JoinedMember("b", None, b"2")),
    )
    reply = await given.call(ApiKey.JOIN_GROUP, version, **join_fields(version))
    assert (reply.error_code, reply.generation_id, reply.protocol_name) == (0, 3, "range")
    assert (reply.leader, reply.member_id) == ("a", "a")
    assert [(one.member_id, one.metadata) for one in reply.members] == [("a", b"1"), ("b", b"2")]
    if version >= 5:
        assert [one.group_instance_id for one in reply.members] == ["i", None]
    assert getattr(reply, "protocol_type", "consumer") == "consumer"
    assert getattr(reply, "skip_assignment", True) is True


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
async def test_refused_member_keeps_its_id_and_has_no_protocol(
    given: Fixture, version: int, name: str | None
) -> None:
    given.groups.answers["join"] = NotCoordinator("elsewhere")
    reply = await given.call(ApiKey.JOIN_GROUP, version, **join_fields(version, member_id="m"))
    assert (reply.error_code, reply.member_id, reply.protocol_name) == (
        Code.NOT_COORDINATOR,
        "m",
        name,
    )
    assert (reply.generation_id, reply.leader, reply.members) == (-1, "", ())


async def test_a_waiting_join_delays_only_its_own_connection(given: Fixture) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def join(group: str, request: JoinRequest) -> JoinReply:
        started.set()
        await release.wait()
        return JoinReply(member_id="m", generation=1)

    given.groups.join = join  # type: ignore[method-assign]
    waiting, other = await given.broker.connect(), await given.broker.connect()
    first = await waiting.send(ApiKey.JOIN_GROUP, 9, **join_fields(9))
    second = await waiting.send(
        ApiKey.HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None
    )
    await started.wait()
    heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "o", "group_instance_id": None}
    assert (await other.call(ApiKey.HEARTBEAT, 4, **heartbeat)).error_code == 0
    assert [asked[2].member_id for asked in given.groups.asked] == ["o"]
    release.set()
    assert (await waiting.receive(ApiKey.JOIN_GROUP, 9))[0] == first
    assert (await waiting.receive(ApiKey.HEARTBEAT, 4))[0] == second
    await waiting.close()
    await other.close()


async def test_closing_the_connection_ends_the_wait_of_a_join(given: Fixture) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def join(group: str, request: JoinRequest) -> JoinReply:
        started.set()
        try:
            return await asyncio.Future()
        finally:
            cancelled.set()

    given.groups.join = join  # type: ignore[method-assign]
    client = await given.broker.connect()
    await client.send(ApiKey.JOIN_GROUP, 9, **join_fields(9))
    await started.wait()
    client.writer.transport.abort()
    await asyncio.wait_for(cancelled.wait(), 10)


@pytest.mark.parametrize("version", range(6))
async def test_sync_carries_assignments_both_ways(given: Fixture, version: int) -> None:
    given.groups.answers["sync"] = SyncReply(
        protocol_type="consumer", protocol_name="range", assignment=b"mine"
    )
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id": 4,
        "member_id": "m",
        "assignments": [{"member_id": "m", "assignment": b"mine"}],
    }
    if version >= 3:
        fields["group_instance_id"] = "i"
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    reply = await given.call(ApiKey.SYNC_GROUP, version, **fields)
    assert (reply.error_code, reply.assignment) == (0, b"mine")
    assert getattr(reply, "protocol_name", "range") == "range"
    ((_, group, request),) = given.groups.asked
    assert (group, request.generation, request.assignments) == ("g", 4, {"m": b"mine"})
    assert request.instance_id == ("i" if version >= 3 else None)
    assert request.protocol_name == ("range" if version >= 5 else None)


async def test_sync_without_a_protocol_is_refused_before_other_checks(given: Fixture) -> None:
    fields = {"generation_id": 1, "member_id": "m", "group_instance_id": None, "assignments": []}
    reply = await given.call(
        ApiKey.SYNC_GROUP, 5, group_id="", protocol_type=None, protocol_name="range", **fields
    )
    assert reply.error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert given.groups.asked == []


@pytest.mark.parametrize("version", range(3))
async def test_a_single_leaving_member_has_its_error_at_the_top_level(
    given: Fixture, version: int
) -> None:
    assert (
        await given.call(ApiKey.LEAVE_GROUP, version, group_id="g", member_id="m")
    ).error_code == 0
    assert given.groups.asked == [("leave", "g", LeavingMember("m", None))]
    given.groups.answers["leave"] = lambda _group, one: type(
        "Reply", (), {"error": 0, "members": ((one.member_id, None, 25),)}
    )
    assert (
        await given.call(ApiKey.LEAVE_GROUP, version, group_id="g", member_id="m")
    ).error_code == Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_leaving_members_have_their_own_errors(given: Fixture, version: int) -> None:
    members: list[dict[str, Any]] = [
        {"member_id": "m", "group_instance_id": None},
        {"member_id": "", "group_instance_id": "i"},
    ]
    if version >= 5:
        members[0]["reason"] = "done"
    reply = await given.call(ApiKey.LEAVE_GROUP, version, group_id="g", members=members)
    assert [(one.member_id, one.group_instance_id) for one in reply.members] == [
        ("m", None), ("", "i")
    ]  # fmt: skip
    reason = "done" if version >= 5 else None
    assert given.groups.asked == [
        ("leave", "g", LeavingMember("m", None, reason), LeavingMember("", "i"))
    ]


async def test_an_empty_group_id_is_refused_as_in_kafka(given: Fixture) -> None:
    replies = [
        await given.call(ApiKey.JOIN_GROUP, 9, **join_fields(9, group_id="")),
        await given.call(ApiKey.HEARTBEAT, 0, group_id="", generation_id=1, member_id="m"),
        await given.call(ApiKey.LEAVE_GROUP, 0, group_id="", member_id="m"),
        await given.call(ApiKey.LEAVE_GROUP, 3, group_id="", members=[]),
        await given.call(
            ApiKey.SYNC_GROUP, 0, group_id="", generation_id=1, member_id="m", assignments=[]
        ),
    ]
    assert [reply.error_code for reply in replies] == [Code.INVALID_GROUP_ID] * 5
    assert given.groups.asked == []


async def test_each_reply_has_the_coordinators_error_in_its_own_field(given: Fixture) -> None:
    answers = given.groups.answers
    for name in ("heartbeat", "leave", "sync"):
        answers[name] = NotCoordinator("elsewhere")
    for name in ("list", "describe_classic", "describe_consumer", "delete"):
        answers[name] = CoordinatorNotAvailable("the store does not answer")
    one = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert (await given.call(ApiKey.HEARTBEAT, 0, **one)).error_code == Code.NOT_COORDINATOR
    assert (
        await given.call(ApiKey.SYNC_GROUP, 0, **one, assignments=[])
    ).error_code == Code.NOT_COORDINATOR
    assert (
        await given.call(ApiKey.LEAVE_GROUP, 0, group_id="g", member_id="m")
    ).error_code == Code.NOT_COORDINATOR
    several = await given.call(ApiKey.LEAVE_GROUP, 5, group_id="g", members=[{"member_id": "m"}])
    assert (several.error_code, several.members) == (Code.NOT_COORDINATOR, ())
    assert (
        await given.call(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[])
    ).error_code == Code.COORDINATOR_NOT_AVAILABLE
    described = await given.call(
        ApiKey.DESCRIBE_GROUPS, 6, groups=["g"], include_authorized_operations=True
    )
    assert [(group.error_code, group.group_id) for group in described.groups] == [
        (Code.COORDINATOR_NOT_AVAILABLE, "g")
    ]
    described = await given.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=True
    )
    assert [(group.error_code, group.group_id) for group in described.groups] == [
        (Code.COORDINATOR_NOT_AVAILABLE, "g")
    ]
    deleted = await given.call(ApiKey.DELETE_GROUPS, 2, groups_names=["g", "h", "g"])
    assert [(one.group_id, one.error_code) for one in deleted.results] == [
        ("g", Code.COORDINATOR_NOT_AVAILABLE),
        ("h", Code.COORDINATOR_NOT_AVAILABLE),
    ]


async def test_very_many_members_leave_in_order(given: Fixture) -> None:
    members = [
        {"member_id": f"m{number}", "group_instance_id": None, "reason": None}
        for number in range(1_200)
    ]
    reply = await given.call(ApiKey.LEAVE_GROUP, 5, group_id="g", members=members)
    assert [one.member_id for one in reply.members] == [one["member_id"] for one in members]
    assert len(given.groups.asked) == 3
