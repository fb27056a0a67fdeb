"""A member of a consumer group: who it is, what it wants, and what it holds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any
from uuid import UUID

from headwater.groups.bounds import member_bytes
from headwater.groups.consumer.assignors import Partitions
from headwater.groups.requests import Assignment, Client

__all__ = (
    "LEAVE",
    "LEAVE_FOR_A_WHILE",
    "ClassicFacts",
    "Facts",
    "Held",
    "Holding",
    "Member",
    "MemberState",
    "sorted_partitions",
)

LEAVE = -1
LEAVE_FOR_A_WHILE = -2
"""The epoch that a static member gives, and then has, until another takes its place."""

Held = Mapping[UUID, Mapping[int, int]]
"""By topic and partition the epoch at which the member was given it (KIP-1251)."""


class MemberState(IntEnum):
    """How far a member is on its way to its target."""

    STABLE = 0
    """It has all of the target of its epoch."""
    UNREVOKED = 1
    """It was told to give partitions up and did not say yet that it did."""
    UNRELEASED = 2
    """It waits for partitions that others still hold."""


@dataclass(frozen=True, slots=True)
class ClassicFacts:
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a member told about itself."""

    client: Client
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    classic: ClassicFacts | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields that a newer release stored."""

    def subscribes_as(self, other: "Facts") -> bool:
        """Whether both ask for the same topics and assignor."""
        mine = (self.topic_names, self.topic_regex, self.assignor)
        return mine == (other.topic_names, other.topic_regex, other.assignor)

    def size(self, member_id: str) -> int:
        """About how many bytes the record of a member with that id has."""
        client = self.client
        texts = (
            member_id, self.instance_id, client.id, client.host, self.rack_id, self.assignor,
            self.topic_regex,
        )  # fmt: skip
        protocols = () if self.classic is None else self.classic.protocols
        return member_bytes(texts, protocols, self.topic_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a member was given, and by which epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields that a newer release stored."""

    def at(self, epoch: int, state: MemberState, assigned: Held, revoking: Held) -> "Holding":
        return Holding(
            epoch=epoch,
            previous_epoch=self.epoch,
            state=state,
            assigned=assigned,
            revoking=revoking,
            unknown=self.unknown,
        )

    def reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def covers(self, owned: Assignment | None) -> bool:
        """The member says that it owns nothing beyond what it was given."""
        return owned is not None and all(
            self.assigned.get(topic, {}).keys() >= set(partitions)
            for topic, partitions in owned.items()
        )


@dataclass(frozen=True, slots=True)
class Member:
    id: str
    facts: Facts
    holding: Holding

    @property
    def classic(self) -> bool:
        return self.facts.classic is not None

    @property
    def present(self) -> bool:
        """It speaks this protocol and has not left for a while."""
        return not self.classic and self.holding.epoch != LEAVE_FOR_A_WHILE

    def as_replacement(self, member_id: str) -> "Member":
        """The same static member under a new id, as if it had just come."""
        return Member(member_id, self.facts, replace(self.holding, epoch=0, previous_epoch=0))


def sorted_partitions(partitions: Partitions | Held) -> Assignment:
    """As replies carry them."""
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()}
