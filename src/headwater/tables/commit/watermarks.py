"""Which ranges of which streams a table holds, and which may be appended next.

A table has a watermark for each stream: every offset below it is in the table or was never to
be. It is a table property, changed in the same commit as the files, so that it survives the
expiry of snapshots and refuses whoever brings a range that is there already.

Watermarks are of one restore epoch, which the table states (``topic_tables.EPOCH``): a restore may
give offsets anew. In another epoch than the cluster's a table takes no change but the one that sets
it to what the log holds (``commit.settle_files``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.errors import CommitConflict
from headwater.log.jobs.jobs import DataFile

_PREFIX = "headwater.next-offset."

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """The files of one job, which hold ``[start, end)`` of a stream."""

    job: str
    stream: int
    start: int
    end: int
    files: Sequence[DataFile]
    holes: Sequence[Range] = ()
    """Ranges that will never come: below the log's start, or set aside."""


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """What to do with some appends, given a table's watermarks."""

    fresh: list[Append] = field(default_factory=list)
    """To be appended."""
    landed: list[str] = field(default_factory=list)
    """Jobs whose range the table has."""
    refused: dict[str, CommitConflict] = field(default_factory=dict)
    """Jobs that can never be appended, and why."""
    watermarks: dict[int, int] = field(default_factory=dict)
    """The streams' next offsets once ``fresh`` is appended."""


def watermark_property(stream: int) -> str:
    """The table property that holds a stream's watermark."""
    return f"{_PREFIX}{stream}"


def watermarks(properties: Mapping[str, str]) -> dict[int, int]:
    """The next offset of every stream that a table has something of."""
    return {
        int(name.removeprefix(_PREFIX)): int(value)
        for name, value in properties.items()
        if name.startswith(_PREFIX)
    }


def plan_appends(appends: Sequence[Append], properties: Mapping[str, str]) -> AppendPlan:
    """Judge each append by its stream's watermark, in order of offsets."""
    plan = AppendPlan()
    marks = watermarks(properties)
    for append in sorted(appends, key=lambda one: (one.stream, one.start, one.end)):
        mark = marks.get(append.stream, 0)
        after = past_holes(mark, append.start, append.holes)
        if append.end <= mark:
            plan.landed.append(append.job)
        elif after == append.start:
            plan.fresh.append(append)
            marks[append.stream] = plan.watermarks[append.stream] = append.end
        elif after > append.start:
            plan.refused[append.job] = CommitConflict(
                f"job {append.job} has [{append.start}, {append.end}) of stream {append.stream}, "
                f"and the table has everything before {mark}"
            )
        else:
            plan.refused[append.job] = CommitConflict(
                f"job {append.job} starts at {append.start} of stream {append.stream}, "
                f"and the table has nothing from {after} on"
            )
    return plan


def past_holes(mark: int, start: int, holes: Sequence[Range]) -> int:
    """How far a watermark may go towards ``start`` because all in between are holes.

    >>> past_holes(0, 10, [(4, 10), (0, 4)])
    10
    >>> past_holes(0, 10, [(0, 4), (5, 10)])
    4
    """
    for low, high in sorted(holes):
        if low <= mark < min(high, start):
            mark = min(high, start)
    return mark
