"""The next range of a stream to compact, and its division into files.

Pure functions over index entries. A range is always the lowest run of neighbouring chunks, so a
table grows in offset order.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.log.formats.metadata_values import INLINE, WAL, IndexEntry

MAX_FILES: Final = 32
"""Maximum files of one job, because its manifest is one value in the metadata store.

Each step of a job is one transaction, and etcd limits a transaction to 128 writes. A segment file
needs two. A job whose table copies need more ends early.
"""

MAX_ENTRIES: Final = 4096
"""Maximum index entries of one job, because one value lists the entries that it replaces."""

MAX_INLINE_BYTES: Final = 16 * 2**20
"""Maximum inline data of one range, because it is sent with the Spark tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a range is compacted. A run that fills a file always is."""

    file_bytes: int
    max_age_ms: int
    """A range of this age is compacted; 0 compacts everything."""
    max_entries: int
    """A run of this many index entries is compacted."""


@dataclass(frozen=True, slots=True)
class StreamView:
    """The input of a plan. ``entries`` are in order and may end before the log's end."""

    log_start: int
    last_stable: int
    entries: Sequence[IndexEntry]


@dataclass(frozen=True, slots=True)
class FileRange:
    """One file for all records of ``[start, end)``, from these entries."""

    start: int
    end: int
    entries: Sequence[IndexEntry]


COMPACT: Final = "compact"
"""Compaction of chunks into table files."""
REWRITE: Final = "rewrite"
"""A rewrite of table files into larger ones with the same records."""
CLEAN: Final = "clean"
"""Key compaction of table files."""
REPLACING: Final = (REWRITE, CLEAN)
"""Jobs that replace files of the table."""
SEGMENTS: Final = "segment"
"""Compaction of chunks into segment files, without a table."""
BOTH: Final = "both"
"""Compaction of chunks into segment files, and a copy of the records into a table."""
DENSE: Final = (SEGMENTS, BOTH)
"""Jobs whose files contain every batch of their range."""


@dataclass(frozen=True, slots=True)
class RangePlan:
    """One job: the range ``[start, end)`` of a stream, its size and its age."""

    start: int
    end: int
    size: int
    oldest_ms: int
    kind: str = COMPACT
    inputs: tuple[str, ...] = ()
    """Keys of the files that the job replaces."""


def plan_range(view: StreamView, rules: Rules, now_ms: int) -> RangePlan | None:
    """The next range to compact; None if there is none yet."""
    run = lowest_run(view)
    taken: list[IndexEntry] = []
    for group in cut(run, rules.file_bytes):
        if not _is_due(group, rules, now_ms):
            break
        taken += group
    # Later groups are younger, so if one must wait, the following ones must wait, too.
    if not taken:
        return None
    return RangePlan(
        start=taken[0].start,
        end=taken[-1].end,
        size=sum(entry.length for entry in taken),
        oldest_ms=taken[0].created_ms,
    )


def lowest_run(view: StreamView) -> list[IndexEntry]:
    """The first run of neighbouring chunks below the last stable offset that are not set aside.

    It ends where inline data or entries would exceed the limits of one job.
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
    """Split a run into at most ``MAX_FILES`` groups of entries of about ``file_bytes`` each."""
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
    """Split a job's range into files. They cover the range even if a trim removed entries.

    Empty if no entry is left.
    """
    groups = cut(entries, file_bytes)
    if len(groups) == MAX_FILES:
        groups[-1] += entries[sum(map(len, groups)) :]
    bounds = [start, *(group[0].start for group in groups[1:]), end]
    return [
        FileRange(low, high, group)
        for low, high, group in zip(bounds, bounds[1:], groups, strict=False)
    ]


def _is_due(group: Sequence[IndexEntry], rules: Rules, now_ms: int) -> bool:
    return (
        sum(entry.length for entry in group) * 4 >= rules.file_bytes * 3
        or len(group) >= rules.max_entries
        or now_ms - group[0].created_ms >= rules.max_age_ms
    )
