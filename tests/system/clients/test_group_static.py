"""Static members: one that is away for a moment keeps its partitions, and nobody rebalances."""

from contextlib import ExitStack

import pytest

from tests.support.interop.capabilities import STATIC_CONSUMERS
from tests.support.interop.members import GROUP_CLIENTS, GroupClient
from tests.support.interop.members.group import (
    PARTITIONS,
    GroupOfOneClient,
    fill,
    received,
    share_evenly,
    values,
)
from tests.support.interop.members.state import AssignmentKind

CLASSIC = "group, static members"


def static_kinds() -> list[object]:
    return [
        pytest.param(
            client,
            kind,
            id=f"{client.name}-{kind}",
            marks=pytest.mark.cell(
                client.name, STATIC_CONSUMERS if kind is AssignmentKind.CONSUMER else CLASSIC
            ),
        )
        for client in GROUP_CLIENTS
        for kind in client.static_kinds
    ]


@pytest.mark.parametrize(("client", "kind"), static_kinds())
def test_a_static_member_comes_back_to_its_partitions(
    bootstrap: str, client: GroupClient, kind: AssignmentKind, leaving: ExitStack
) -> None:
    group = GroupOfOneClient(bootstrap, client, leaving)
    fill(bootstrap, group.topic, 0)
    returning = group.join(kind, instance=f"{group.name}-a", auto_commit=True)
    staying = group.join(kind, instance=f"{group.name}-b", auto_commit=True)
    group.wait_for(lambda: share_evenly([returning, staying], group.topic))
    group.wait_for(lambda: set(values(group.topic, 0)) <= set(received([returning, staying])))
    owned = returning.state().assigned
    seen = staying.state().rebalances
    returning.leave()

    fill(bootstrap, group.topic, 1)
    returned = group.join(kind, instance=f"{group.name}-a", auto_commit=True)
    group.wait_for(lambda: returned.state().assigned == owned)
    group.wait_for(lambda: set(values(group.topic, 1)) <= set(received([returned, staying])))
    assert len(staying.state().assigned) == PARTITIONS - len(owned)
    if (
        kind is not AssignmentKind.CONSUMER
    ):  # which tells a member its assignment without a rebalance
        assert staying.state().rebalances == seen
