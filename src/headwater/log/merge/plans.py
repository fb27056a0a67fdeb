"""Adjusts the plans of many streams, so that they are read together and fill objects.

The object of a flush has the chunks of many streams next to each other. If the runs of these
streams begin and end with the same flushes, one request per object reads all of them. If each run
ended when it has enough bytes, runs would drift apart until each chunk costs a request. So all runs
of a round end at the same time: they are merged in step.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeVar

from headwater.log.formats.metadata_values import IndexEntry
from headwater.log.merge.rank import worth_while
from headwater.log.read.ranged_reads import plan_reads

T = TypeVar("T")

REACHED_BY = 0.8
"""Fraction of the streams that have enough bytes at the common end. The others make smaller
entries, which are merged once more."""
OBJECT_ENTRIES = 4096
"""Most entries of one object, which bounds the work for it."""
PART_ENTRIES = 4 * OBJECT_ENTRIES
MAX_OVERSIZE = 1.25
"""An object may be this much larger than planned, to save a small one."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The run to merge of a stream, if its layout still has that generation."""

    stream: int
    generation: int
    run: Sequence[IndexEntry]
    small: Sequence[IndexEntry] = ()
    """The small entries from the start of the run on."""
    earlier: Sequence[IndexEntry] = ()
    """The small entries before the run, mostly merged ones."""

    @property
    def size(self) -> int:
        return sum(entry.length for entry in self.run)

    @property
    def later(self) -> list[IndexEntry]:
        """The small entries after the run."""
        return [entry for entry in self.small if entry.start >= self.run[-1].end]

    def weight(self, object_bytes: int) -> float:
        """The fraction of an object that the run fills."""
        return max(self.size / object_bytes, len(self.run) / OBJECT_ENTRIES)


def in_step(
    plans: Sequence[MergePlan], *, by_ms: int, fan_in: int, max_bytes: int, max_entries: int
) -> list[MergePlan]:
    """Change the plans so that all runs end at the same commit time, at most ``by_ms``.

    A plan keeps its run if the changed run would be too small to merge.
    """
    ends = sorted(planned.run[-1].created_ms for planned in plans)
    end = min(ends[min(int(len(ends) * REACHED_BY), len(ends) - 1)], by_ms)
    changed: list[MergePlan] = []
    for planned in plans:
        run = list(_until(end, planned, max_bytes, max_entries))
        changed.append(replace(planned, run=run) if worth_while(run, fan_in) else planned)
    return changed


def _until(end: int, planned: MergePlan, max_bytes: int, max_entries: int) -> Iterator[IndexEntry]:
    """The entries of the run and after it that were committed by ``end``."""
    size = 0
    following = planned.run[0].start
    for entry in planned.small[:max_entries]:
        size += entry.length
        if entry.created_ms > end or entry.start != following or size > max_bytes:
            return
        yield entry
        following = entry.end


def extend_backwards(
    planned: MergePlan, *, small_bytes: int, max_bytes: int, max_entries: int
) -> MergePlan:
    """Add the small entries right before a run that makes a large entry.

    Otherwise they would stay between two large entries for ever, too few for a merge.
    """
    size = planned.size
    if size < small_bytes:
        return planned
    first = len(planned.earlier)
    following = planned.run[0].start
    while first and len(planned.earlier) - first + len(planned.run) < max_entries:
        entry = planned.earlier[first - 1]
        size += entry.length
        if entry.end != following or size > max_bytes:
            break
        following = entry.start
        first -= 1
    return replace(planned, run=[*planned.earlier[first:], *planned.run])


def divide_by_read(plans: Iterable[MergePlan], max_bytes: int) -> Iterator[list[MergePlan]]:
    """The plans in groups of up to ``max_bytes`` that are read at once; at least one plan each.

    With the gaps between chunks, up to twice ``max_bytes`` are read.
    """
    for part in _parts(plans, max_bytes):
        halves = [part]
        while halves:
            half = halves.pop()
            reads = plan_reads([entry for planned in half for entry in planned.run])
            if len(half) > 1 and sum(read.length for read in reads) > 2 * max_bytes:
                middle = len(half) // 2
                halves += [half[middle:], half[:middle]]
            else:
                yield half


def _parts(plans: Iterable[MergePlan], max_bytes: int) -> Iterator[list[MergePlan]]:
    part: list[MergePlan] = []
    size = entries = 0
    for planned in plans:
        size += planned.size
        entries += len(planned.run)
        if part and (size > max_bytes or entries > PART_ENTRIES):
            yield part
            part, size, entries = [], planned.size, len(planned.run)
        part.append(planned)
    if part:
        yield part


def divide_by_object(items: Sequence[T], weights: Sequence[float]) -> list[list[T]]:
    """The items in order, divided among objects of about the same size."""
    total = sum(weights)
    objects = max(1, ceil(total / MAX_OVERSIZE))
    groups: list[list[T]] = [[] for _ in range(objects)]
    before = 0.0
    for item, weight in zip(items, weights, strict=True):
        groups[min(int(before / total * objects), objects - 1)].append(item)
        before += weight
    return [group for group in groups if group]
