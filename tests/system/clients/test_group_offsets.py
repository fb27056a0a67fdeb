"""Offsets that a group commits: with metadata or without, by itself or told to, for any client."""

from contextlib import ExitStack

from tests.support.interop.members import GROUP_CLIENTS, GroupClient
from tests.support.interop.members.group import (
    GroupOfOneClient,
    all_places,
    ends,
    fill,
    for_each_client,
    values,
)
from tests.support.interop.members.offsets import committed_offsets
from tests.support.interop.members.state import InteropOffset


@for_each_client("group, offsets committed with metadata")
def test_committed_offsets_are_where_the_next_member_goes_on(
    bootstrap: str, client: GroupClient, leaving: ExitStack
) -> None:
    group = GroupOfOneClient(bootstrap, client, leaving)
    fill(bootstrap, group.topic, 0)
    first = group.join()
    group.wait_for(lambda: first.state().values == values(group.topic, 0))
    wanted = {
        where: InteropOffset(number % 5, f"métadonnées {number}")
        for number, where in enumerate(sorted(all_places(group.topic)))
    }
    first.commit(wanted)
    assert committed_offsets(bootstrap, group.name) == wanted
    first.leave()

    second = group.join()
    expected = {
        (where, offset) for where, each in wanted.items() for offset in range(each.offset, 5)
    }
    group.wait_for(lambda: len(second.state().received) == len(expected))
    assert {(where, offset) for where, offset, _ in second.state().received} == expected
    assert committed_offsets(bootstrap, group.name) == wanted


@for_each_client("group, offsets committed automatically")
def test_a_member_that_leaves_has_committed_what_it_received(
    bootstrap: str, client: GroupClient, leaving: ExitStack
) -> None:
    group = GroupOfOneClient(bootstrap, client, leaving)
    fill(bootstrap, group.topic, 0)
    first = group.join(auto_commit=True)
    group.wait_for(lambda: first.state().values == values(group.topic, 0))
    first.leave()
    offsets = committed_offsets(bootstrap, group.name)
    assert {where: each.offset for where, each in offsets.items()} == {
        where: each.offset for where, each in ends(group.topic, 1).items()
    }

    fill(bootstrap, group.topic, 1)
    second = group.join(auto_commit=True)
    group.wait_for(lambda: second.state().values == values(group.topic, 1))


@for_each_client("group, continued by another client")
def test_a_group_is_handed_from_client_to_client(
    bootstrap: str, client: GroupClient, leaving: ExitStack
) -> None:
    """To its neighbour in the list, so that every client gives a group away and takes one over."""
    group = GroupOfOneClient(bootstrap, client, leaving)
    fill(bootstrap, group.topic, 0)
    first = group.join()
    group.wait_for(lambda: first.state().values == values(group.topic, 0))
    first.commit(ends(group.topic, 1, f"by {client.name}"))
    first.leave()

    fill(bootstrap, group.topic, 1)
    group.client = GROUP_CLIENTS[(GROUP_CLIENTS.index(client) + 1) % len(GROUP_CLIENTS)]
    second = group.join()
    group.wait_for(lambda: second.state().values == values(group.topic, 1))
    second.commit(ends(group.topic, 2, f"by {group.client.name}"))
    assert committed_offsets(bootstrap, group.name) == ends(
        group.topic, 2, f"by {group.client.name}"
    )
