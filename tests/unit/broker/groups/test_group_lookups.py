"""Groups are listed and described, and their coordinators are found, in every version."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.broker.authorizer import AllowAll
from headwater.broker.cluster.view import PLAINTEXT
from headwater.broker.handlers import list_groups
from headwater.broker.network.client_session import ClientSession
from headwater.broker.services import RequestContext
from headwater.groups.requests import (
    ClassicDescription,
    ClassicMemberDescription,
    ClientIdentity,
    ListedGroup,
)
from headwater.wire.error_codes import Code
from headwater.wire.messages.api_versions import ApiKey
from headwater.work_budget import TURN_ELEMENTS
from tests.support.broker.fake_groups import FakeGroups
from tests.support.broker.scripted import Fixture

ALL_OPERATIONS = 3400
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
async def test_groups_are_filtered_by_state_and_type_without_regard_to_case(
    given: Fixture, version: int, filters: dict[str, Any], names: str
) -> None:
    given.groups.answers["list"] = LISTED
    reply = await given.call(ApiKey.LIST_GROUPS, version, **filters)
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
    reply = await given.call(ApiKey.DESCRIBE_GROUPS, version, groups=["g", "x"], **operations)
    group, absent = reply.groups
    assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
    (shown,) = group.members
    assert (shown.client_id, shown.client_host) == ("app", "/10.0.0.1")
    assert (shown.member_metadata, shown.member_assignment) == (b"meta", b"parts")
    assert getattr(shown, "group_instance_id", "i") == "i"
    assert (absent.group_id, absent.group_state) == ("x", "Dead")
    assert absent.error_code == (Code.GROUP_ID_NOT_FOUND if version >= 6 else Code.NONE)
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
    one = await given.call(ApiKey.FIND_COORDINATOR, 3, key="a", key_type=kind)
    assert (one.error_code, one.node_id, one.host, one.port) == (0, 1, "127.0.0.1", port)
    several = await given.call(
        ApiKey.FIND_COORDINATOR, 6, key_type=kind, coordinator_keys=["a", ""]
    )
    assert [(found.key, found.node_id, found.port) for found in several.coordinators] == [
        ("a", 1, port), ("", 1, port)
    ]  # fmt: skip
    assert (await given.call(ApiKey.FIND_COORDINATOR, 0, key="g")).node_id == 1


async def test_coordinators_of_share_groups_and_of_dead_brokers_are_not_found(
    given: Fixture,
) -> None:
    shared = await given.call(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=["a"])
    assert [(one.error_code, one.node_id) for one in shared.coordinators] == [
        (Code.INVALID_REQUEST, -1)
    ]
    given.groups.answers["coordinator"] = 9
    dead = await given.call(ApiKey.FIND_COORDINATOR, 3, key="a", key_type=0)
    assert (dead.error_code, dead.node_id) == (Code.COORDINATOR_NOT_AVAILABLE, -1)


async def test_a_group_that_is_named_many_times_is_described_once(given: Fixture) -> None:
    names = ["g", "h", *["g"] * 300]
    classic = await given.call(
        ApiKey.DESCRIBE_GROUPS, 5, groups=names, include_authorized_operations=False
    )
    assert [one.group_id for one in classic.groups] == ["g", "h"]
    consumer = await given.call(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=names, include_authorized_operations=False
    )
    assert [one.group_id for one in consumer.groups] == ["g", "h"]
    assert len(given.groups.asked) == 4


async def test_very_many_coordinators_are_found_in_order(given: Fixture) -> None:
    keys = [f"g{number}" for number in range(1_500)]
    reply = await given.call(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=keys)
    assert [one.key for one in reply.coordinators] == keys
