"""The group APIs between the wire and the groups, in every version that changes something."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.broker.authorizer import AllowAll
from headwater.broker.cluster.view import PLAINTEXT
from headwater.broker.handlers import list_groups
from headwater.broker.network.client_session import ClientSession
from headwater.broker.services import RequestContext
from headwater.errors import CoordinatorNotAvailable, NotCoordinator
from headwater.groups.requests import (
    ClassicDescription,
    ClassicMemberDescription,
    ClientIdentity,
    JoinedMember,
    JoinReply,
    JoinRequest,
    LeavingMember,
    ListedGroup,
    SyncReply,
)
from headwater.wire.error_codes import Code
from headwater.work_budget import TURN_ELEMENTS
from tests.support.broker.fake_groups import FakeGroups
from tests.support.broker.scripted import Fixture

FIND, JOIN, HEARTBEAT, LEAVE, SYNC = 10, 11, 12, 13, 14
DESCRIBE, LIST, DELETE, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 15, 16, 42, 68, 69
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
async def test_join_tells_the_group_what_its_version_means(
    given: Fixture,
    version: int,
    rebalance: int,
    known: bool,
    skipping: bool,
    reason: str | None,
) -> None:
    await given.call(JOIN, version, **join_fields(version))
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


async def test_static_members_need_not_be_given_an_id_first(given: Fixture) -> None:
    await given.call(JOIN, 5, **join_fields(5, group_instance_id="i"))
    ((_, _, request),) = given.groups.asked
    assert request.instance_id == "i"
    assert not request.requires_known_member_id


@pytest.mark.parametrize("version", range(10))
async def test_leader_learns_all_members_in_every_version(given: Fixture, version: int) -> None:
    given.groups.answers["join"] = JoinReply(
        generation=3,
        protocol_type="consumer",
        protocol_name="range",
        leader="a",
        skip_assignment=True,
        member_id="a",
        members=(JoinedMember("a", "i", b"1"), JoinedMember("b", None, b"2")),
    )
    reply = await given.call(JOIN, version, **join_fields(version))
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
    reply = await given.call(JOIN, version, **join_fields(version, member_id="m"))
    assert (reply.error_code, reply.member_id, reply.protocol_name) == (16, "m", name)
    assert (reply.generation_id, reply.leader, reply.members) == (-1, "", ())


async def test_join_waits_hold_up_their_own_connection_alone(given: Fixture) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def join(group: str, request: JoinRequest) -> JoinReply:
        started.set()
        await release.wait()
        return JoinReply(member_id="m", generation=1)

    given.groups.join = join  # type: ignore[method-assign]
    waiting, other = await given.broker.connect(), await given.broker.connect()
    first = await waiting.send(JOIN, 9, **join_fields(9))
    second = await waiting.send(
        HEARTBEAT, 4, group_id="g", generation_id=1, member_id="m", group_instance_id=None
    )
    await started.wait()
    heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "o", "group_instance_id": None}
    assert (await other.call(HEARTBEAT, 4, **heartbeat)).error_code == 0
    assert [asked[2].member_id for asked in given.groups.asked] == ["o"]
    release.set()
    assert (await waiting.receive(JOIN, 9))[0] == first
    assert (await waiting.receive(HEARTBEAT, 4))[0] == second
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
    await client.send(JOIN, 9, **join_fields(9))
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
    reply = await given.call(SYNC, version, **fields)
    assert (reply.error_code, reply.assignment) == (0, b"mine")
    assert getattr(reply, "protocol_name", "range") == "range"
    ((_, group, request),) = given.groups.asked
    assert (group, request.generation, request.assignments) == ("g", 4, {"m": b"mine"})
    assert request.instance_id == ("i" if version >= 3 else None)
    assert request.protocol_name == ("range" if version >= 5 else None)


async def test_sync_without_a_protocol_is_inconsistent_before_all_else(given: Fixture) -> None:
    fields = {"generation_id": 1, "member_id": "m", "group_instance_id": None, "assignments": []}
    reply = await given.call(
        SYNC, 5, group_id="", protocol_type=None, protocol_name="range", **fields
    )
    assert reply.error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    assert given.groups.asked == []


@pytest.mark.parametrize("version", range(3))
async def test_a_single_leaving_member_has_its_error_on_top(given: Fixture, version: int) -> None:
    assert (await given.call(LEAVE, version, group_id="g", member_id="m")).error_code == 0
    assert given.groups.asked == [("leave", "g", LeavingMember("m", None))]
    given.groups.answers["leave"] = lambda _group, one: type(
        "Reply", (), {"error": 0, "members": ((one.member_id, None, 25),)}
    )
    assert (await given.call(LEAVE, version, group_id="g", member_id="m")).error_code == 25


@pytest.mark.parametrize("version", [3, 4, 5])
async def test_leaving_members_have_their_own_errors(given: Fixture, version: int) -> None:
    members: list[dict[str, Any]] = [
        {"member_id": "m", "group_instance_id": None},
        {"member_id": "", "group_instance_id": "i"},
    ]
    if version >= 5:
        members[0]["reason"] = "done"
    reply = await given.call(LEAVE, version, group_id="g", members=members)
    assert [(one.member_id, one.group_instance_id) for one in reply.members] == [
        ("m", None), ("", "i")
    ]  # fmt: skip
    reason = "done" if version >= 5 else None
    assert given.groups.asked == [
        ("leave", "g", LeavingMember("m", None, reason), LeavingMember("", "i"))
    ]


async def test_an_empty_group_id_is_invalid_where_kafka_says_so(given: Fixture) -> None:
    replies = [
        await given.call(JOIN, 9, **join_fields(9, group_id="")),
        await given.call(HEARTBEAT, 0, group_id="", generation_id=1, member_id="m"),
        await given.call(LEAVE, 0, group_id="", member_id="m"),
        await given.call(LEAVE, 3, group_id="", members=[]),
        await given.call(SYNC, 0, group_id="", generation_id=1, member_id="m", assignments=[]),
    ]
    assert [reply.error_code for reply in replies] == [Code.INVALID_GROUP_ID] * 5
    assert given.groups.asked == []


async def test_a_coordinators_error_stands_where_each_reply_has_it(given: Fixture) -> None:
    answers = given.groups.answers
    for name in ("heartbeat", "leave", "sync"):
        answers[name] = NotCoordinator("elsewhere")
    for name in ("list", "describe_classic", "describe_consumer", "delete"):
        answers[name] = CoordinatorNotAvailable("the store does not answer")
    one = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert (await given.call(HEARTBEAT, 0, **one)).error_code == 16
    assert (await given.call(SYNC, 0, **one, assignments=[])).error_code == 16
    assert (await given.call(LEAVE, 0, group_id="g", member_id="m")).error_code == 16
    several = await given.call(LEAVE, 5, group_id="g", members=[{"member_id": "m"}])
    assert (several.error_code, several.members) == (16, ())
    assert (await given.call(LIST, 5, states_filter=[], types_filter=[])).error_code == 15
    described = await given.call(DESCRIBE, 6, groups=["g"], include_authorized_operations=True)
    assert [(group.error_code, group.group_id) for group in described.groups] == [(15, "g")]
    described = await given.call(
        CONSUMER_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=True
    )
    assert [(group.error_code, group.group_id) for group in described.groups] == [(15, "g")]
    deleted = await given.call(DELETE, 2, groups_names=["g", "h", "g"])
    assert [(one.group_id, one.error_code) for one in deleted.results] == [("g", 15), ("h", 15)]


LISTED = (
    ListedGroup("a", "consumer", "Stable", "classic"),
    ListedGroup("b", "", "Empty", "classic"),
    ListedGroup("c", "consumer", "Stable", "consumer"),
)


@pytest.mark.parametrize(
    ("version", "filters", "names"),
    [
        (0, {}, "abc"),
        (3, {}, "abc"),
        (4, {"states_filter": ["STABLE", "dead"]}, "ac"),
        (4, {"states_filter": ["no such state"]}, ""),
        (5, {"states_filter": [], "types_filter": ["Classic"]}, "ab"),
        (5, {"states_filter": ["stable"], "types_filter": ["consumer"]}, "c"),
        (5, {"states_filter": [], "types_filter": ["no such type"]}, ""),
    ],
)
async def test_groups_are_listed_by_state_and_type_whatever_the_case(
    given: Fixture, version: int, filters: dict[str, Any], names: str
) -> None:
    given.groups.answers["list"] = LISTED
    reply = await given.call(LIST, version, **filters)
    assert "".join(group.group_id for group in reply.groups) == names
    if version >= 5:
        shown = {group.group_id: (group.group_state, group.group_type) for group in reply.groups}
        assert shown == {one.group: (one.state, one.kind) for one in LISTED if one.group in names}


async def test_very_many_groups_are_listed_in_turns() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    count = 10 * TURN_ELEMENTS
    listed = [ListedGroup(f"g{number}", "", "Empty", "classic") for number in range(count)]
    services: Any = SimpleNamespace(groups=FakeGroups(list=listed), authorizer=AllowAll())
    task = asyncio.create_task(other())
    reply = await list_groups.handle(
        services, SimpleNamespace(), RequestContext(0, None, ClientSession(PLAINTEXT, 1))
    )
    task.cancel()
    assert len(reply["groups"]) == count
    assert turns == 9


@pytest.mark.parametrize("version", range(7))
async def test_classic_groups_are_described_with_their_members(
    given: Fixture, version: int
) -> None:
    member = ClassicMemberDescription(
        member_id="m",
        instance_id="i",
        client=ClientIdentity("app", "/10.0.0.1"),
        metadata=b"meta",
        assignment=b"parts",
    )
    missing = ClassicDescription(error=Code.GROUP_ID_NOT_FOUND, message="Group x not found.")
    found = ClassicDescription(
        state="Stable", protocol_type="consumer", protocol_name="range", members=(member,)
    )
    given.groups.answers["describe_classic"] = lambda group: found if group == "g" else missing
    operations = {"include_authorized_operations": True} if version >= 3 else {}
    reply = await given.call(DESCRIBE, version, groups=["g", "x"], **operations)
    group, absent = reply.groups
    assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
    (shown,) = group.members
    assert (shown.client_id, shown.client_host) == ("app", "/10.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (b"meta", b"parts")
    assert getattr(shown, "group_instance_id", "i") == "i"
    assert (absent.group_id, absent.group_state) == ("x", "Dead")
    assert absent.error_code == (69 if version >= 6 else 0)
    if version >= 6:
        assert absent.error_message == "Group x not found."
    if version >= 3:
        assert group.authorized_operations == ALL_OPERATIONS
        assert absent.authorized_operations == (-(2**31) if version >= 6 else ALL_OPERATIONS)


@pytest.mark.parametrize("kind", [0, 1])
async def test_coordinators_of_groups_and_transactions_are_found_one_by_one_or_together(
    given: Fixture, kind: int
) -> None:
    port = given.broker.port
    one = await given.call(FIND, 3, key="a", key_type=kind)
    assert (one.error_code, one.node_id, one.host, one.port) == (0, 1, "127.0.0.1", port)
    several = await given.call(FIND, 6, key_type=kind, coordinator_keys=["a", ""])
    assert [(found.key, found.node_id, found.port) for found in several.coordinators] == [
        ("a", 1, port), ("", 1, port)
    ]  # fmt: skip
    assert (await given.call(FIND, 0, key="g")).node_id == 1


async def test_coordinators_of_share_groups_and_of_dead_brokers_are_not_found(
    given: Fixture,
) -> None:
    shared = await given.call(FIND, 6, key_type=2, coordinator_keys=["a"])
    assert [(one.error_code, one.node_id) for one in shared.coordinators] == [(42, -1)]
    given.groups.answers["coordinator"] = 9
    dead = await given.call(FIND, 3, key="a", key_type=0)
    assert (dead.error_code, dead.node_id) == (Code.COORDINATOR_NOT_AVAILABLE, -1)


async def test_a_group_that_is_named_many_times_is_described_once(given: Fixture) -> None:
    names = ["g", "h", *["g"] * 300]
    classic = await given.call(15, 5, groups=names, include_authorized_operations=False)
    assert [one.group_id for one in classic.groups] == ["g", "h"]
    consumer = await given.call(69, 1, group_ids=names, include_authorized_operations=False)
    assert [one.group_id for one in consumer.groups] == ["g", "h"]
    assert len(given.groups.asked) == 4


async def test_very_many_coordinators_are_found_in_order(given: Fixture) -> None:
    keys = [f"g{number}" for number in range(1_500)]
    reply = await given.call(10, 4, key_type=0, coordinator_keys=keys)
    assert [one.key for one in reply.coordinators] == keys


async def test_very_many_members_leave_in_order(given: Fixture) -> None:
    members = [
        {"member_id": f"m{number}", "group_instance_id": None, "reason": None}
        for number in range(1_200)
    ]
    reply = await given.call(13, 5, group_id="g", members=members)
    assert [one.member_id for one in reply.members] == [one["member_id"] for one in members]
    assert len(given.groups.asked) == 3
