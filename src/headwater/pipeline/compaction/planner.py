"""Which range of a stream is compacted next, and how it is cut into files.

Pure functions over index entries. A range is a run of neighbouring chunks, always the lowest
there is: so a table grows in order of offsets, and nothing below a job is still to come.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry

MAX_FILES: Final = 32
"""The most files of one job: its manifest is one value in the metadata store.

Every step of it is one transaction, which etcd bounds to 128 writes: a segment file makes two.
Where copies for a table make more than that, the job ends early.
"""

MAX_ENTRIES: Final = 4096
"""The most index entries of one job: what it replaces is noted in one value."""

MAX_INLINE_BYTES: Final = 16 * 2**20
"""The most inline data of one range: it travels with the tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a range is worth compacting. A run that fills a file always is."""

    file_bytes: int
    max_age_ms: int
    """What has waited for so long is taken; 0 takes everything."""
    max_entries: int
    """A run of so many entries is taken."""


@dataclass(frozen=True, slots=True)
class StreamView:
    """What a plan is made from; ``entries`` are in order and may end anywhere."""

    log_start: int
    last_stable: int
    entries: Sequence[IndexEntry]


@dataclass(frozen=True, slots=True)
class FileRange:
    """One file: all of ``[start, end)``, from these entries."""

    start: int
    end: int
    entries: Sequence[IndexEntry]


COMPACT: Final = "compact"
"""Chunks become files of the table."""
REWRITE: Final = "rewrite"
"""Files of the table become other files with the same records."""
CLEAN: Final = "clean"
"""Files of the table become files with the last record of each key."""
REPLACING: Final = (REWRITE, CLEAN)
"""The jobs that take files out of the table for those that they bring."""
SEGMENTS: Final = "segment"
"""Chunks become segment files, which no table has."""
BOTH: Final = "both"
"""Chunks become segment files, and their records files of a table that is a copy."""
DENSE: Final = (SEGMENTS, BOTH)
"""The jobs whose files hold every batch of their range."""


@dataclass(frozen=True, slots=True)
class RangePlan:
    """One job: ``[start, end)`` of a stream, and what it weighs."""

    start: int
    end: int
    size: int
    oldest_ms: int
    kind: str = COMPACT
    inputs: tuple[str, ...] = ()
    """The files that a rewrite replaces."""


def plan_range(view: StreamView, rules: Rules, now_ms: int) -> RangePlan | None:
    """The range that is worth a job; None where nothing is, yet."""
    run = lowest_run(view)
    taken: list[IndexEntry] = []
    for group in cut(run, rules.file_bytes):
        if not _worth_while(group, rules, now_ms):
            break
        taken += group
    # Later groups are younger: where one has to wait, so do those behind it.
    if not taken:
        return None
    return RangePlan(
        start=taken[0].start,
        end=taken[-1].end,
        size=sum(entry.length for entry in taken),
        oldest_ms=taken[0].created_ms,
    )


def lowest_run(view: StreamView) -> list[IndexEntry]:
    """The first run of neighbouring chunks that readers may see and no job has set aside.

    It ends where its inline data or its entries would be too many for one job.
    """
    run: list[IndexEntry] = []
    inline = 0
    for entry in view.entries:
        if entry.end <= view.log_start:
            continue
        if entry.end > view.last_stable:
            break
        wanted = entry.kind in (INLINE, WAL) and not entry.set_aside
        inline += entry.length if entry.kind == INLINE else 0
        full = inline > MAX_INLINE_BYTES or len(run) == MAX_ENTRIES
        if run and (not wanted or full or run[-1].end != entry.start):
            break
        if wanted:
            run.append(entry)
    return run


def cut(run: Iterable[IndexEntry], file_bytes: int) -> list[list[IndexEntry]]:
    """A run in groups of whole entries, each about a file; at most ``MAX_FILES`` of them."""
    groups: list[list[IndexEntry]] = []
    size = 0
    for entry in run:
        if not groups or (groups[-1] and size + entry.length // 2 >= file_bytes):
            if len(groups) == MAX_FILES:
                break
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += entry.length
    return groups


def file_ranges(
    start: int, end: int, entries: Sequence[IndexEntry], file_bytes: int
) -> list[FileRange]:
    """A job's range cut into files, which make it up though a trim took entries of it.

    Empty where no entry is left.
    """
    groups = cut(entries, file_bytes)
    if len(groups) == MAX_FILES:
        groups[-1] += entries[sum(map(len, groups)) :]
    bounds = [start, *(group[0].start for group in groups[1:]), end]
    return [
        FileRange(low, high, group)
        for low, high, group in zip(bounds, bounds[1:], groups, strict=False)
    ]


def _worth_while(group: Sequence[IndexEntry], rules: Rules, now_ms: int) -> bool:
    return (
        sum(entry.length for entry in group) * 4 >= rules.file_bytes * 3
        or len(group) >= rules.max_entries
        or now_ms - group[0].created_ms >= rules.max_age_ms
    )
