"""What a test sees of a member, whatever its client."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How partitions are assigned: a client-side assignor, or the coordinator itself."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"
    STICKY = "sticky"
    COOPERATIVE = "cooperative-sticky"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A place in a group, and how a member takes it."""

    bootstrap: str
    group: str
    topic: str
    kind: Kind
    instance: str = ""
    auto_commit: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class State:
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
