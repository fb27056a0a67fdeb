"""The requests and replies of group members: the only input of the checker of groups.

Times are of the system's monotonic clock, which all processes of a machine share.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNKNOWN = -1
"""The generation of a member that the coordinator has forgotten, by its own account."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A member was given partitions: all that it owned from then on."""

    group: str
    owner: str
    """The member's id; of a static member its instance, whose id changes when it starts again."""
    generation: int
    """That of the classic protocol, or the member's epoch."""
    partitions: frozenset[int]
    at: float


@dataclass(frozen=True, slots=True)
class Tried:
    """A commit that was sent, whatever became of it."""

    group: str
    owner: str
    generation: int
    partition: int
    offset: int
    invoked: float


@dataclass(frozen=True, slots=True)
class AcknowledgedCommit(Tried):
    """A commit that was acknowledged.

    Its generation is ``UNKNOWN`` where that changed while the commit was under way.
    """

    completed: float


@dataclass(frozen=True, slots=True)
class Fetched:
    """A committed offset as someone outside of the group read it."""

    group: str
    partition: int
    offset: int
    invoked: float
    completed: float
    broker: int


@dataclass(slots=True)
class Reading:
    """What one member was given of one partition, from one assignment of it to the next."""

    group: str
    partition: int
    start: int | None
    """The committed offset that it went on from; None where it did not learn it."""
    offsets: list[int] = field(default_factory=list)


@dataclass(slots=True)
class GroupHistory:
    produced: set[tuple[int, int]] = field(default_factory=set)
    """Partition and offset of every record that was acknowledged to a producer."""
    processed: dict[str, set[tuple[int, int]]] = field(default_factory=dict)
    """By group."""
    claims: list[Claim] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    """All commits of members, also those in ``committed``, which began at the same time."""
    committed: list[AcknowledgedCommit] = field(default_factory=list)
    fetched: list[Fetched] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    refused: int = 0
    """Commits that were answered with an error, late ones that were tried on purpose too."""

    def read(self, group: str, files: Iterable[Path]) -> None:
        """Add what members of ``group`` wrote."""
        for file in files:
            self._read_one(group, file)

    def _read_one(self, group: str, file: Path) -> None:
        processed = self.processed.setdefault(group, set())
        current: dict[int, Reading] = {}
        for event in _events(file):
            match event.pop("event"):
                case "claim":
                    owned = frozenset(event.pop("partitions"))
                    self.claims.append(Claim(group=group, partitions=owned, **event))
                case "started":
                    current[event["partition"]] = reading = Reading(group=group, **event)
                    self.readings.append(reading)
                case "processed":
                    processed.add((event["partition"], event["offset"]))
                    current[event["partition"]].offsets.append(event["offset"])
                case "tried":
                    self.tried += [
                        Tried(group=group, partition=partition, offset=offset, **event)
                        for partition, offset in event.pop("offsets")
                    ]
                case "committed":
                    self.committed.append(AcknowledgedCommit(group=group, **event))
                case "refused":
                    self.refused += 1
                case other:
                    raise AssertionError(f"members write no {other!r}")


def _events(file: Path) -> Iterator[dict[str, Any]]:
    lines = file.read_text().split("\n")
    # A killed member may leave its last line without its end.
    yield from (json.loads(line) for line in lines[:-1])
