"""Members that live in another language's program."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from peers.driver import Driver
from tests.support.interop.clients.driven import Driven
from tests.support.interop.members.state import (
    AssignmentKind,
    InteropOffset,
    MemberSetup,
    PolledState,
)


@dataclass(frozen=True, slots=True)
class DrivenMember:
    driver: Driver
    number: int

    def state(self) -> PolledState:
        fields = self.driver.call("state", member=self.number)
        received = tuple((where, offset, value) for where, offset, value in fields["received"])
        assigned = frozenset(fields["assigned"])
        return PolledState(assigned, received, fields["rebalances"], fields["error"])

    def commit(self, offsets: Mapping[str, InteropOffset]) -> None:
        wanted = {where: asdict(committed) for where, committed in offsets.items()}
        self.driver.call("commit", member=self.number, offsets=wanted)

    def leave(self) -> None:
        self.driver.call("leave", member=self.number)


@dataclass(frozen=True, slots=True)
class DrivenGroups:
    client: Driven
    kinds: tuple[AssignmentKind, ...]
    static_kinds: tuple[AssignmentKind, ...] = ()

    @property
    def name(self) -> str:
        return self.client.name

    def join(self, joining: MemberSetup) -> DrivenMember:
        number = self.client.driver.call("join", **asdict(joining))
        return DrivenMember(self.client.driver, number)
