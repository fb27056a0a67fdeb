"""Feature levels: which formats the brokers of a cluster may write.

Each release supports a range of levels, which is in its brokers' registrations. The cluster's
record has the finalized level. A format is written only if the finalized level includes it, so that
brokers of two releases can run in one cluster until an operator finalizes a new level. A release
that does not support the finalized level does not start. A level never goes back, because data in
its formats remains.

| level | formats that it adds |
|---|---|
| 1 | the first formats |
| 2 | an incarnation stores the last section that it committed, so that a restore finds the sections
      after a snapshot (``log.restore.recovery``) |
"""

from typing import Final, NamedTuple

from headwater.errors import UnknownFormat

NOTED_SECTIONS: Final = 2


class Levels(NamedTuple):
    """A range of feature levels, both ends included."""

    lowest: int
    highest: int

    def __str__(self) -> str:
        return f"{self.lowest}" if self.lowest == self.highest else f"{self[0]} to {self[1]}"


SUPPORTED_LEVELS: Final = Levels(1, 2)
"""The levels that this release supports."""


def check_level(level: int, spoken: Levels) -> None:
    """Raises ``UnknownFormat`` if a release does not support the cluster's level."""
    if not spoken.lowest <= level <= spoken.highest:
        wanted = "newer" if level > spoken.highest else "older"
        raise UnknownFormat(
            f"the cluster has feature level {level}, and this release supports {spoken}: "
            f"run a {wanted} release of headwater"
        )
