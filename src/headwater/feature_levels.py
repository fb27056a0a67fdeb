"""The feature levels: which formats a cluster's brokers may write.

Each release speaks a range of levels and says so in its registration. The cluster's record holds
the finalized one. A format is written from the level on that brought it, so brokers of two
releases work side by side until an operator finalizes, and a release that does not speak the
finalized level does not start. A level never goes back: what was written stays.

| level | what it brought |
|---|---|
| 1 | the first formats |
| 2 | an incarnation notes the last section that it committed, so that a restore finds those that
      came after a snapshot (``log.recovery``) |
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


SPOKEN: Final = Levels(1, 2)
"""What this release reads and can write."""


def check_level(level: int, spoken: Levels) -> None:
    """Raises ``UnknownFormat`` where a cluster is at a level that a release does not speak."""
    if not spoken.lowest <= level <= spoken.highest:
        wanted = "newer" if level > spoken.highest else "older"
        raise UnknownFormat(
            f"the cluster is at feature level {level} and this release speaks {spoken}: "
            f"run a {wanted} release of headwater"
        )
