"""Groups of every client, with every way of assigning that it offers."""

from contextlib import ExitStack

import pytest

from tests.support.interop.capabilities import IN_A_GROUP
from tests.support.interop.members import GROUP_CLIENTS, GroupClient
from tests.support.interop.members.group import (
    EACH,
    PARTITIONS,
    GroupOfOneClient,
    fill,
    received,
    share_evenly,
    values,
)
from tests.support.interop.members.state import AssignmentKind, InteropOffset

CAPABILITIES = {
    AssignmentKind.RANGE: IN_A_GROUP,
    AssignmentKind.ROUND_ROBIN: "group, round-robin assignor",
    AssignmentKind.STICKY: "group, sticky assignor",
    AssignmentKind.COOPERATIVE: "group, cooperative-sticky assignor",
    AssignmentKind.CONSUMER: "group, consumer protocol (KIP-848)",
}


def kinds_of_clients() -> list[object]:
    return [
        pytest.param(
            client,
            kind,
            id=f"{client.name}-{kind}",
            marks=pytest.mark.cell(client.name, CAPABILITIES[kind]),
        )
        for client in GROUP_CLIENTS
        for kind in client.kinds
    ]


@pytest.mark.parametrize(("client", "kind"), kinds_of_clients())
def test_members_share_the_partitions_and_take_over_from_one_that_leaves(
    bootstrap: str, client: GroupClient, kind: AssignmentKind, leaving: ExitStack
) -> None:
    group = GroupOfOneClient(bootstrap, client, leaving)
    fill(group.bootstrap, group.topic, 0)
    members = [group.join(kind) for _ in range(3)]
    group.wait_for(lambda: share_evenly(members, group.topic))
    group.wait_for(lambda: set(values(group.topic, 0)) <= set(received(members)))

    fill(group.bootstrap, group.topic, 1)
    group.wait_for(lambda: set(values(group.topic, 1)) <= set(received(members)))
    owners = {text: n for n, each in enumerate(members) for text in each.state().values}
    for partition in range(PARTITIONS):
        assert len({owners[text] for text in values(group.topic, 1, [partition])}) == 1
    for member in members:
        positions = {where: offset + 1 for where, offset, _ in member.state().received}
        owned = member.state().assigned
        member.commit({where: InteropOffset(positions[where]) for where in owned})

    members.pop(1).leave()
    group.wait_for(lambda: share_evenly(members, group.topic))
    before = len(received(members))
    fill(group.bootstrap, group.topic, 2)
    group.wait_for(lambda: set(values(group.topic, 2)) <= set(received(members)))
    assert len(received(members)) == before + PARTITIONS * EACH
