"""What is merged of many streams: in step, read together, and in objects of one size.

A flush's object holds the chunks of many streams side by side. Streams whose runs begin and end
with the same flushes are read with one request for each of those objects; runs that end where each
has enough bytes drift apart, until a chunk costs a request of its own. So the runs of a round end
at one time, which most of them would have reached.
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
"""By the common end this share of the streams has enough; the rest makes smaller entries, which
are merged once more."""
OBJECT_ENTRIES = 4096
"""Of how many entries one object is made, so that nobody waits for long meanwhile."""
PART_ENTRIES = 4 * OBJECT_ENTRIES
STRETCHED = 1.25
"""Objects are rather that much larger than one more of them."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What is to be merged of a stream, if its layout is still of that generation."""

    stream: int
    generation: int
    run: Sequence[IndexEntry]
    small: Sequence[IndexEntry] = ()
    """The small entries from where the run begins on, that may be merged by now."""
    earlier: Sequence[IndexEntry] = ()
    """Those before it, merged ones for the most part."""

    @property
    def size(self) -> int:
        return sum(entry.length for entry in self.run)

    @property
    def behind(self) -> list[IndexEntry]:
        """The small entries that stay behind the run."""
        return [entry for entry in self.small if entry.start >= self.run[-1].end]

    def weight(self, object_bytes: int) -> float:
        """How much of an object it makes."""
        return max(self.size / object_bytes, len(self.run) / OBJECT_ENTRIES)


def in_step(
    plans: Sequence[MergePlan], *, by_ms: int, fan_in: int, max_bytes: int, max_entries: int
) -> list[MergePlan]:
    """The same plans with runs that end at one time, no later than ``by_ms``.

    One stays as it is where what would become of it is not worth while.
    """
    ends = sorted(planned.run[-1].created_ms for planned in plans)
    end = min(ends[min(int(len(ends) * REACHED_BY), len(ends) - 1)], by_ms)
    changed: list[MergePlan] = []
    for planned in plans:
        run = list(_until(end, planned, max_bytes, max_entries))
        changed.append(replace(planned, run=run) if worth_while(run, fan_in) else planned)
    return changed


def _until(end: int, planned: MergePlan, max_bytes: int, max_entries: int) -> Iterator[IndexEntry]:
    """The entries of the run and its neighbours that were committed by then."""
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
    """Take the small entries right before a run along, where it makes an entry that is not small.

    They would else be shut in between two of those for ever, too few to be merged by themselves.
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


def divide_by_read(plans: Iterable[MergePlan], most: int) -> Iterator[list[MergePlan]]:
    """As many at a time as may be read at once, with what lies between the entries; one at least.

    Of entries that lie apart up to twice ``most`` bytes are read.
    """
    for part in _parts(plans, most):
        halves = [part]
        while halves:
            half = halves.pop()
            spans = plan_reads([entry for planned in half for entry in planned.run])
            if len(half) > 1 and sum(span.length for span in spans) > 2 * most:
                middle = len(half) // 2
                halves += [half[middle:], half[:middle]]
            else:
                yield half


def _parts(plans: Iterable[MergePlan], most: int) -> Iterator[list[MergePlan]]:
    part: list[MergePlan] = []
    size = entries = 0
    for planned in plans:
        size += planned.size
        entries += len(planned.run)
        if part and (size > most or entries > PART_ENTRIES):
            yield part
            part, size, entries = [], planned.size, len(planned.run)
        part.append(planned)
    if part:
        yield part


def divide_by_object(items: Sequence[T], weights: Sequence[float]) -> list[list[T]]:
    """The items in their order, by the object that each goes to; the objects are about as large."""
    total = sum(weights)
    objects = max(1, ceil(total / STRETCHED))
    groups: list[list[T]] = [[] for _ in range(objects)]
    before = 0.0
    for item, weight in zip(items, weights, strict=True):
        groups[min(int(before / total * objects), objects - 1)].append(item)
        before += weight
    return [group for group in groups if group]
