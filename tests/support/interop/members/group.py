"""A group under test: its topic, the records in rounds, and what its members hold together."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.interop.clients import LIBRDKAFKA
from tests.support.interop.members import GROUP_CLIENTS, GroupClient, InteropMember
from tests.support.interop.members.state import AssignmentKind, InteropOffset, MemberSetup, place
from tests.support.interop.records import InteropRecord
from tests.support.waiting import wait_until
from tests.system.clients.conftest import create_topic, fresh_name

PARTITIONS = 6
EACH = 5
"""Records for each partition in one round."""


def values(topic: str, round_: int, partitions: Iterable[int] = range(PARTITIONS)) -> list[str]:
    return sorted(
        f"{topic}-{round_}-{partition}-{number}"
        for partition in partitions
        for number in range(EACH)
    )


def fill(bootstrap: str, topic: str, round_: int, *, partitions: int = PARTITIONS) -> None:
    for partition in range(partitions):
        texts = values(topic, round_, [partition])
        records = [InteropRecord(text.encode(), b"k") for text in texts]
        LIBRDKAFKA.produce(bootstrap, topic, records, partition=partition)


def all_places(topic: str) -> frozenset[str]:
    return frozenset(place(topic, partition) for partition in range(PARTITIONS))


def share_evenly(members: Sequence[InteropMember], topic: str) -> bool:
    """Every partition has one owner, and no member has more than one above another."""
    assigned = [member.state().assigned for member in members]
    sizes = [len(each) for each in assigned]
    return (
        frozenset().union(*assigned) == all_places(topic)
        and sum(sizes) == PARTITIONS
        and max(sizes) - min(sizes) <= 1
    )


def received(members: Iterable[InteropMember]) -> list[str]:
    return sorted(text for member in members for text in member.state().values)


class GroupOfOneClient:
    """A group of one client with its own topic; remaining members leave at the end."""

    def __init__(self, bootstrap: str, client: GroupClient, leaving: ExitStack) -> None:
        self.bootstrap, self.client = bootstrap, client
        self.topic = create_topic(bootstrap, partitions=PARTITIONS)
        self.name = fresh_name("group")
        self._leaving = leaving

    def join(self, kind: AssignmentKind | None = None, **options: Any) -> InteropMember:
        joining = MemberSetup(
            bootstrap=self.bootstrap,
            group=self.name,
            topic=self.topic,
            kind=kind or self.client.kinds[0],
            **options,
        )
        member = self.client.join(joining)
        self._leaving.callback(member.leave)
        return member

    def wait_for(self, holds: Callable[[], bool]) -> None:
        wait_until(holds, seconds=40)


def ends(topic: str, rounds: int, metadata: str = "") -> dict[str, InteropOffset]:
    """The offsets of a group that has read ``rounds`` rounds."""
    return {where: InteropOffset(rounds * EACH, metadata) for where in all_places(topic)}


def for_each_client(capability: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "client",
        [
            pytest.param(each, id=each.name, marks=pytest.mark.cell(each.name, capability))
            for each in GROUP_CLIENTS
        ],
    )
