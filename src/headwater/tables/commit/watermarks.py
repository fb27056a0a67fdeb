"""Watermarks: the ranges of streams that a table contains, and the next ones to append.

A table has a watermark for each stream. Every offset below it is in the table, or will never be.
The watermark is a table property that changes in the same commit as the files, so it survives the
expiry of snapshots, and a range that is already in the table is refused.

Watermarks belong to one restore epoch (``topic_tables.EPOCH``), because a restore may assign
offsets again. A table whose epoch is not the cluster's accepts only its settlement
(``changes.settle_files``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.errors import CommitConflict
from headwater.log.jobs.jobs import DataFile

_PREFIX = "headwater.next-offset."

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """The files of one job, with the records of ``[start, end)`` of a stream."""

    job: str
    stream: int
    start: int
    end: int
    files: Sequence[DataFile]
    holes: Sequence[Range] = ()
    """Ranges that the table will never contain: below the log start, or set aside."""


@dataclass(frozen=True, slots=True)
class AppendPlan:
    """A decision about appends, given a table's watermarks."""

    fresh: list[Append] = field(default_factory=list)
    """To be appended."""
    landed: list[str] = field(default_factory=list)
    """Jobs whose range is already in the table."""
    refused: dict[str, CommitConflict] = field(default_factory=dict)
    """Jobs that can never be appended, and why."""
    watermarks: dict[int, int] = field(default_factory=dict)
    """The streams' watermarks after ``fresh`` is appended."""


def watermark_property(stream: int) -> str:
    """The table property that holds a stream's watermark."""
    return f"{_PREFIX}{stream}"


def watermarks(properties: Mapping[str, str]) -> dict[int, int]:
    """The watermark of every stream in a table."""
    return {
        int(name.removeprefix(_PREFIX)): int(value)
        for name, value in properties.items()
        if name.startswith(_PREFIX)
    }


def plan_appends(appends: Sequence[Append], properties: Mapping[str, str]) -> AppendPlan:
    """Decide each append by its stream's watermark, in offset order."""
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
                f"and the table is complete only before {after}"
            )
    return plan


def past_holes(mark: int, start: int, holes: Sequence[Range]) -> int:
    """The watermark after it moved towards ``start`` over adjacent holes.

    >>> past_holes(0, 10, [(4, 10), (0, 4)])
    10
    >>> past_holes(0, 10, [(0, 4), (5, 10)])
    4
    """
    for low, high in sorted(holes):
        if low <= mark < min(high, start):
            mark = min(high, start)
    return mark
