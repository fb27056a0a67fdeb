"""Groups outlive their broker: members go on, and offsets are where they were."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import pytest

from tests.support.interop.members import GROUP_CLIENTS, GroupClient, InteropMember
from tests.support.interop.members.group import (
    GroupOfOneClient,
    ends,
    fill,
    for_each_client,
    received,
    values,
)
from tests.support.interop.members.offsets import committed_offsets
from tests.support.interop.members.state import AssignmentKind
from tests.support.interop.restartable import Restartable


@dataclass(frozen=True, slots=True)
class Survivor:
    """A group that had read and committed one round when its broker was killed."""

    group: GroupOfOneClient
    member: InteropMember

    def read_and_commit(self) -> None:
        expected = values(self.group.topic, 0)
        self.group.wait_for(lambda: self.member.state().values == expected)
        self.member.commit(ends(self.group.topic, 1, "kept"))


@pytest.fixture(scope="module")
def survivors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Survivor]]:
    """One broker, killed once under a group of every client."""
    restartable = Restartable(tmp_path_factory.mktemp("restart") / "data")
    bootstrap = restartable.server.bootstrap
    with closing(restartable), ExitStack() as leaving:
        found = {client.name: start(bootstrap, client, leaving) for client in GROUP_CLIENTS}
        for survivor in found.values():
            survivor.read_and_commit()
        restartable.restart(kill=True)
        yield found


def start(bootstrap: str, client: GroupClient, leaving: ExitStack) -> Survivor:
    group = GroupOfOneClient(bootstrap, client, leaving)
    fill(bootstrap, group.topic, 0)
    kind = AssignmentKind.CONSUMER if AssignmentKind.CONSUMER in client.kinds else client.kinds[0]
    return Survivor(group, group.join(kind))


@for_each_client("group, broker killed and started again")
def test_a_group_goes_on_after_its_broker_was_killed(
    survivors: dict[str, Survivor], client: GroupClient
) -> None:
    survivor = survivors[client.name]
    group, member = survivor.group, survivor.member
    assert committed_offsets(group.bootstrap, group.name) == ends(group.topic, 1, "kept")
    fill(group.bootstrap, group.topic, 1)
    group.wait_for(lambda: set(values(group.topic, 1)) <= set(received([member])))
    member.commit(ends(group.topic, 2, "later"))
    member.leave()

    fill(group.bootstrap, group.topic, 2)
    successor = group.join()
    group.wait_for(lambda: successor.state().values == values(group.topic, 2))
    assert committed_offsets(group.bootstrap, group.name) == ends(group.topic, 2, "later")
