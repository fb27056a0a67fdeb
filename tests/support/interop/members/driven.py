"""Members that live in another language's program."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from peers.driver import Driver
from tests.support.interop.clients.driven import Driven
from tests.support.interop.members.state import Committed, Joining, Kind, State


@dataclass(frozen=True, slots=True)
class DrivenMember:
    driver: Driver
    number: int

    def state(self) -> State:
        fields = self.driver.call("state", member=self.number)
        received = tuple((where, offset, value) for where, offset, value in fields["received"])
        assigned = frozenset(fields["assigned"])
        return State(assigned, received, fields["rebalances"], fields["error"])

    def commit(self, offsets: Mapping[str, Committed]) -> None:
        wanted = {where: asdict(committed) for where, committed in offsets.items()}
        self.driver.call("commit", member=self.number, offsets=wanted)

    def leave(self) -> None:
        self.driver.call("leave", member=self.number)


@dataclass(frozen=True, slots=True)
class DrivenGroups:
    client: Driven
    kinds: tuple[Kind, ...]
    static_kinds: tuple[Kind, ...] = ()

    @property
    def name(self) -> str:
        return self.client.name

    def join(self, joining: Joining) -> DrivenMember:
        number = self.client.driver.call("join", **asdict(joining))
        return DrivenMember(self.client.driver, number)
