"""What a test sees of a member, whatever its client."""

from dataclasses import dataclass
from enum import StrEnum


class AssignmentKind(StrEnum):
    """How partitions are assigned: a client-side assignor, or the coordinator itself."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE = "cooperative-sticky"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSetup:
    """A place in a group, and how a member takes it."""

    bootstrap: str
    group: str
    topic: str
    kind: AssignmentKind
    instance: str = ""
    auto_commit: bool = False


@dataclass(frozen=True, slots=True)
class InteropOffset:
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class PolledState:
    assigned: frozenset[str]
    """Places, ``topic:partition``."""
    received: tuple[tuple[str, int, str], ...]
    """Place, offset and value."""
    rebalances: int
    error: str

    @property
    def values(self) -> list[str]:
        return sorted(value for _, _, value in self.received)


def place(topic: str, partition: int) -> str:
    return f"{topic}:{partition}"


def parse_place(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition(":")
    return topic, int(partition)
