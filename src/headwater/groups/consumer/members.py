"""A member of a consumer group: its subscription and its current assignment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any
from uuid import UUID

from headwater.groups.bounds import member_bytes
from headwater.groups.consumer.assignors import Partitions
from headwater.groups.requests import Assignment, ClientIdentity

__all__ = (
    "LEAVE",
    "LEAVE_TEMPORARILY",
    "ClassicProtocolFacts",
    "ConsumerFacts",
    "ConsumerMember",
    "CurrentAssignment",
    "MemberState",
    "PartitionEpochs",
    "sorted_partitions",
)

LEAVE = -1
LEAVE_TEMPORARILY = -2
"""The epoch of a static member that leaves until another one replaces it."""

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""By topic and partition: the member epoch at which it was assigned (KIP-1251)."""


class MemberState(IntEnum):
    """The progress of a member towards its target."""

    STABLE = 0
    """It has all partitions of the target of its epoch."""
    UNREVOKED = 1
    """It must revoke partitions and has not confirmed it yet."""
    UNRELEASED = 2
    """It waits for partitions that other members have not released yet."""


@dataclass(frozen=True, slots=True)
class ClassicProtocolFacts:
    """The JoinGroup fields of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFacts:
    """The information that a member sends about itself."""

    client: ClientIdentity
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    assignor: str | None = None
    classic: ClassicProtocolFacts | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields that a newer release stored."""

    def subscribes_as(self, other: "ConsumerFacts") -> bool:
        """Whether both subscribe to the same topics and request the same assignor."""
        mine = (self.topic_names, self.topic_regex, self.assignor)
        return mine == (other.topic_names, other.topic_regex, other.assignor)

    def size(self, member_id: str) -> int:
        """Estimated bytes of the record of a member with this id."""
        client = self.client
        texts = (
            member_id, self.instance_id, client.id, client.host, self.rack_id, self.assignor,
            self.topic_regex,
        )  # fmt: skip
        protocols = () if self.classic is None else self.classic.protocols
        return member_bytes(texts, protocols, self.topic_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """The partitions that are assigned to a member, and its epochs."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Fields that a newer release stored."""

    def at(
        self, epoch: int, state: MemberState, assigned: PartitionEpochs, revoking: PartitionEpochs
    ) -> "CurrentAssignment":
        return CurrentAssignment(
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
        """Whether the partitions that the member reports are all assigned to it."""
        return owned is not None and all(
            self.assigned.get(topic, {}).keys() >= set(partitions)
            for topic, partitions in owned.items()
        )


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    id: str
    facts: ConsumerFacts
    current: CurrentAssignment

    @property
    def classic(self) -> bool:
        return self.facts.classic is not None

    @property
    def present(self) -> bool:
        """It uses the consumer protocol and has not left temporarily."""
        return not self.classic and self.current.epoch != LEAVE_TEMPORARILY

    def as_replacement(self, member_id: str) -> "ConsumerMember":
        """The same static member with a new id and epoch 0."""
        return ConsumerMember(
            member_id, self.facts, replace(self.current, epoch=0, previous_epoch=0)
        )


def sorted_partitions(partitions: Partitions | PartitionEpochs) -> Assignment:
    """The partitions in the form of replies."""
    return {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()}
