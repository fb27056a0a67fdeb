"""Groups and their offsets through every admin client."""

from contextlib import ExitStack

import pytest

from tests.support.interop.admin import Admin, for_each_admin
from tests.support.interop.members import GROUP_CLIENTS
from tests.support.interop.members.group import (
    GroupOfOneClient,
    all_places,
    ends,
    fill,
    share_evenly,
    values,
)
from tests.support.interop.members.offsets import committed_offsets
from tests.support.interop.members.state import AssignmentKind, InteropOffset, place


def own_group(bootstrap: str, admin: Admin, leaving: ExitStack) -> GroupOfOneClient:
    """A group whose members are of the same client as the one that asks about it."""
    (client,) = (each for each in GROUP_CLIENTS if each.name == admin.name)
    return GroupOfOneClient(bootstrap, client, leaving)


@for_each_admin("ListGroups", "list_groups")
def test_a_group_is_listed(bootstrap: str, admin: Admin, leaving: ExitStack) -> None:
    group = own_group(bootstrap, admin, leaving)
    assert group.name not in admin.call("list_groups", bootstrap)
    member = group.join()
    group.wait_for(lambda: member.state().assigned == all_places(group.topic))
    listed = admin.call("list_groups", bootstrap)[group.name]
    assert listed.get("state", "Stable").title() == "Stable"
    assert listed.get("type", "Classic").title() == "Classic"


def describe(bootstrap: str, admin: Admin, leaving: ExitStack, kind: AssignmentKind | None) -> None:
    group = own_group(bootstrap, admin, leaving)
    members = [group.join(kind) for _ in range(2)]
    group.wait_for(lambda: share_evenly(members, group.topic))

    def agrees() -> bool:
        described = admin.call("describe_group", bootstrap, group=group.name)
        told = {frozenset(places) for places in described["members"].values()}
        seen = {member.state().assigned for member in members}
        stable = described["state"].title() == "Stable"
        return stable and told == seen and frozenset().union(*told) == all_places(group.topic)

    group.wait_for(agrees)


@for_each_admin("DescribeGroups", "describe_group")
def test_a_classic_group_is_described(bootstrap: str, admin: Admin, leaving: ExitStack) -> None:
    describe(bootstrap, admin, leaving, None)


@for_each_admin("ConsumerGroupDescribe", "describe_consumer_group")
def test_a_group_of_the_new_protocol_is_described(
    bootstrap: str, admin: Admin, leaving: ExitStack
) -> None:
    describe(bootstrap, admin, leaving, AssignmentKind.CONSUMER)


@for_each_admin("DeleteGroups", "delete_group")
def test_a_group_is_deleted_when_it_is_empty(
    bootstrap: str, admin: Admin, leaving: ExitStack
) -> None:
    group = own_group(bootstrap, admin, leaving)
    member = group.join()
    group.wait_for(lambda: member.state().assigned == all_places(group.topic))
    member.commit(ends(group.topic, 0))
    with pytest.raises(Exception, match=r"(?i)not.?empty|non.?empty|error in deleteGroups"):
        admin.call("delete_group", bootstrap, group=group.name)
    member.leave()
    admin.call("delete_group", bootstrap, group=group.name)
    assert group.name not in admin.call("list_groups", bootstrap)
    assert committed_offsets(bootstrap, group.name) == {}


@for_each_admin("OffsetFetch of a group", "group_offsets")
def test_a_groups_offsets_are_listed(bootstrap: str, admin: Admin, leaving: ExitStack) -> None:
    group = own_group(bootstrap, admin, leaving)
    fill(bootstrap, group.topic, 0)
    member = group.join()
    group.wait_for(lambda: member.state().values == values(group.topic, 0))
    wanted = ends(group.topic, 1, "noted")
    member.commit(wanted)
    told = admin.call("group_offsets", bootstrap, group=group.name)
    assert {
        where: InteropOffset(each["offset"], each.get("metadata", "noted"))
        for where, each in told.items()
    } == wanted


@for_each_admin("OffsetCommit for a group", "alter_offsets")
def test_a_groups_offsets_are_set_and_its_members_begin_there(
    bootstrap: str, admin: Admin, leaving: ExitStack
) -> None:
    group = own_group(bootstrap, admin, leaving)
    fill(bootstrap, group.topic, 0)
    fill(bootstrap, group.topic, 1)
    offsets = {
        where: {"offset": each.offset, "metadata": ""}
        for where, each in ends(group.topic, 1).items()
    }
    admin.call("alter_offsets", bootstrap, group=group.name, offsets=offsets)
    told = committed_offsets(bootstrap, group.name)
    assert {where: each.offset for where, each in told.items()} == {
        where: each["offset"] for where, each in offsets.items()
    }
    member = group.join()
    group.wait_for(lambda: member.state().values == values(group.topic, 1))


@for_each_admin("OffsetDelete", "delete_offsets")
def test_an_offset_of_a_group_is_deleted(bootstrap: str, admin: Admin, leaving: ExitStack) -> None:
    group = own_group(bootstrap, admin, leaving)
    fill(bootstrap, group.topic, 0)
    member = group.join()
    group.wait_for(lambda: member.state().values == values(group.topic, 0))
    member.commit(ends(group.topic, 1))
    fields = {"group": group.name, "topic": group.topic, "partition": 3}
    with pytest.raises(Exception, match=r"(?i)subscribed"):
        admin.call("delete_offsets", bootstrap, **fields)
    member.leave()
    admin.call("delete_offsets", bootstrap, **fields)
    left = set(committed_offsets(bootstrap, group.name))
    assert left == all_places(group.topic) - {place(group.topic, 3)}
